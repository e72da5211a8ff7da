package rheowatermill

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
)

// SubscriberConfig configures a [Subscriber]. Group is required.
type SubscriberConfig struct {
	// Group is the consumer group: each topic's messages are shared out among the
	// subscribers of a group, and each group has them all.
	Group string
	// Create is what the group is created with on a topic where it is not there
	// yet: where it starts (at the beginning), how many attempts a message has,
	// whether order matters.
	Create rheo.GroupConfig
	// Topic is what a topic that is not there yet is created with. Its zero value
	// has one partition.
	Topic rheo.StreamConfig
	// ExistingTopics refuses topics and groups that are not there, instead of
	// creating them.
	ExistingTopics bool
	// NackAs is what becomes of a nacked message: [rheo.OutcomeNack], the default,
	// has it delivered again, [rheo.OutcomeReject] makes it a dead letter, and
	// [rheo.OutcomeRelease] has it delivered again without counting the attempt.
	// [Reject] and [RetryAfter] choose for one message.
	NackAs rheo.Outcome
	// NackBackoff is how long a nacked message waits, by its attempt. The zero
	// value is not at all, as Watermill's users expect: put their retry middleware
	// before it.
	NackBackoff rheo.Backoff
	// Prefetch is how many messages a subscription holds ready behind the one it
	// has handed out, so that it need not wait for the store. Default 128.
	Prefetch int
	// MaxDemand bounds the leases that the subscriptions of this process hold on a
	// topic for the group together. Default 1000.
	MaxDemand int
	// LeaseDuration is how long a message stays with a subscriber that has died.
	// Default [rheo.DefaultLeaseDuration].
	LeaseDuration time.Duration
	// PollInterval is how long to wait before looking for more when the store does
	// not tell. Default [rheo.DefaultPollInterval].
	PollInterval time.Duration
	// CloseTimeout bounds how long Close waits for the store to take the last acks.
	// Default [rheo.DefaultDrainTimeout].
	CloseTimeout time.Duration
	// Logger takes what goes wrong. Default [slog.Default].
	Logger *slog.Logger
}

func (c SubscriberConfig) withDefaults() SubscriberConfig {
	c.NackAs = cmp.Or(c.NackAs, rheo.OutcomeNack)
	c.Prefetch = cmp.Or(c.Prefetch, 128)
	c.MaxDemand = cmp.Or(c.MaxDemand, 1000)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, rheo.DefaultDrainTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c *SubscriberConfig) check() error {
	switch {
	case c.NackAs < rheo.OutcomeNack || c.NackAs > rheo.OutcomeRelease:
		return rheo.Errorf(rheo.ErrInvalid, "SubscriberConfig.NackAs is %v, must be nack, reject or release", c.NackAs)
	case c.Prefetch < 1 || c.Prefetch > rheo.MaxBatch:
		return rheo.Errorf(rheo.ErrInvalid, "SubscriberConfig.Prefetch is %d, must be 1 to %d", c.Prefetch, rheo.MaxBatch)
	case c.NackBackoff.Min < 0 || c.NackBackoff.Max < c.NackBackoff.Min || c.NackBackoff.Max > rheo.MaxDelay:
		return rheo.Errorf(rheo.ErrInvalid, "SubscriberConfig.NackBackoff is %v to %v, must rise, to %v at most",
			c.NackBackoff.Min, c.NackBackoff.Max, rheo.MaxDelay)
	case c.CloseTimeout < 0:
		return rheo.Errorf(rheo.ErrInvalid, "SubscriberConfig.CloseTimeout is %v, must not be negative", c.CloseTimeout)
	}
	return nil
}

// Subscriber hands out the messages of topics. Make one with [NewSubscriber]; it
// is safe for concurrent use.
type Subscriber struct {
	instance *rheo.Instance
	config   SubscriberConfig
	topics   topics

	closing context.Context //nolint:containedctx // ends when the subscriber closes
	close   context.CancelFunc

	mu     sync.Mutex // of closed, and of Add against Wait
	closed bool
	open   sync.WaitGroup // subscriptions
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber over the instance, which stays the host's. It
// does no I/O. Subscribers of one process that mean the same instance, group and
// topic share their leases, and the options of the first.
func NewSubscriber(instance *rheo.Instance, config SubscriberConfig) (*Subscriber, error) {
	if instance == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "instance must not be nil")
	}
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &Subscriber{
		instance: instance, config: config,
		topics: topics{instance: instance, config: config.Topic, existing: config.ExistingTopics},
	}
	if _, err := rheo.NewProducer(instance, s.producerOptions("topic")); err != nil {
		return nil, err
	}
	s.closing, s.close = context.WithCancel(lifetime)
	return s, nil
}

func (s *Subscriber) producerOptions(topic string) rheo.ProducerOptions {
	return rheo.ProducerOptions{
		Stream: topic, Group: s.config.Group, MaxDemand: s.config.MaxDemand,
		LeaseDuration: s.config.LeaseDuration, PollInterval: s.config.PollInterval,
		DrainTimeout: s.config.CloseTimeout, Logger: s.config.Logger,
	}
}

// SubscribeInitialize implements [message.SubscribeInitializer]: it creates the
// topic and the group on it, if they are not there. Messages published from then
// on, and before if the group starts at the beginning, are the group's.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	return s.initialize(s.closing, topic)
}

func (s *Subscriber) initialize(ctx context.Context, topic string) error {
	if s.config.ExistingTopics {
		_, err := s.instance.GroupInfo(ctx, topic, s.config.Group)
		return err
	}
	if err := s.topics.ensure(ctx, topic); err != nil {
		return err
	}
	return ignoreExisting(s.instance.CreateGroup(ctx, topic, s.config.Group, s.config.Create))
}

func ignoreExisting(err error) error {
	if errors.Is(err, rheo.ErrAlreadyExists) {
		return nil
	}
	return err
}

// Subscribe implements [message.Subscriber]. The channel is closed when ctx ends,
// when the subscriber closes, and when the topic or group turns out to be gone,
// which is logged. A message's context carries ctx's values, and its lease (see
// [Lease]); it ends with ctx, when the message is acked or nacked, and when its
// lease is lost.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if !s.enter() {
		return nil, rheo.Errorf(rheo.ErrClosed, "the subscriber")
	}
	if err := s.initialize(ctx, topic); err != nil {
		s.open.Done()
		return nil, err
	}
	source, err := sources.join(s.instance, s.producerOptions(topic))
	if err != nil {
		s.open.Done()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	out := make(chan *message.Message)
	sub := newSubscription(&s.config, source.producer, out, s.config.Logger.With("topic", topic, "group", s.config.Group))
	go func() {
		defer s.open.Done()
		defer source.leave()
		defer close(out)
		defer cancel()
		defer stop()
		sub.run(ctx)
	}()
	return out, nil
}

// enter reports false if the subscriber has been closed.
func (s *Subscriber) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.open.Add(1)
	}
	return !s.closed
}

// Close ends all subscriptions and waits until their channels are closed and what
// was acked is settled, for CloseTimeout at most. What was handed out and neither
// acked nor nacked is given back. The instance stays open. Closing twice is
// harmless.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	s.open.Wait()
	return nil
}
