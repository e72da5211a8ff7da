package rheowatermill

import (
	"context"
	"maps"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
)

// PublisherConfig configures a [Publisher]. The zero value is fit for use.
type PublisherConfig struct {
	// KeyMetadata names the metadata whose value is the message's partition key:
	// messages of one key go to one partition of the topic, in order. Without a
	// value there the UUID decides. Default "key".
	KeyMetadata string
	// TypeMetadata names the metadata whose value is the event's type. Default
	// "type".
	TypeMetadata string
	// Topic is what a topic that is not there yet is created with. Its zero value
	// has one partition.
	Topic rheo.StreamConfig
	// ExistingTopics refuses to publish to topics that are not there, with
	// [rheo.ErrStreamNotFound], instead of creating them.
	ExistingTopics bool
	// ExactPayload has JSON payloads too come back byte for byte, and not just as
	// the same value. They cannot be queried by their fields then.
	ExactPayload bool
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.KeyMetadata == "" {
		c.KeyMetadata = "key"
	}
	if c.TypeMetadata == "" {
		c.TypeMetadata = "type"
	}
	return c
}

// Publisher appends messages to streams. Make one with [NewPublisher]; it is safe
// for concurrent use.
type Publisher struct {
	instance *rheo.Instance
	config   PublisherConfig
	topics   topics

	mu      sync.RWMutex // held for reading by who publishes
	closing bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher over the instance, which stays the host's. It
// does no I/O.
func NewPublisher(instance *rheo.Instance, config PublisherConfig) (*Publisher, error) {
	if instance == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "instance must not be nil")
	}
	return &Publisher{
		instance: instance,
		config:   config.withDefaults(),
		topics:   topics{instance: instance, config: config.Topic, existing: config.ExistingTopics},
	}, nil
}

// Publish appends the messages to the topic, in order, as one batch, on the first
// one's context. It returns when they are as durable as the store makes anything.
// A batch is atomic within each partition; see [rheo.Instance.Append] for what
// its errors mean. All of it may be published again after any error: what is
// there already is not appended twice, if the messages have UUIDs.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closing {
		return rheo.Errorf(rheo.ErrClosed, "the publisher")
	}
	if len(messages) == 0 {
		return nil
	}
	events := make([]rheo.Event, len(messages))
	for i, m := range messages {
		events[i] = p.event(m)
	}
	ctx := messages[0].Context()
	if err := p.topics.ensure(ctx, topic); err != nil {
		return err
	}
	_, err := p.instance.Append(ctx, topic, events...)
	return err
}

func (p *Publisher) event(m *message.Message) rheo.Event {
	e := rheo.Event{
		ID:   m.UUID,
		Key:  m.Metadata.Get(p.config.KeyMetadata),
		Type: m.Metadata.Get(p.config.TypeMetadata),
	}
	var encoding string
	e.Payload, encoding = encodePayload(m.Payload, p.config.ExactPayload)
	e.Metadata = make(map[string]string, len(m.Metadata)+1)
	maps.Copy(e.Metadata, m.Metadata)
	delete(e.Metadata, MetadataEncoding) // of a message that came from elsewhere
	if encoding != "" {
		e.Metadata[MetadataEncoding] = encoding
	}
	return e
}

// Close waits for those who publish; later ones get [rheo.ErrClosed]. The instance
// stays open.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	return nil
}

// topics creates the streams of topics.
type topics struct {
	instance *rheo.Instance
	config   rheo.StreamConfig
	existing bool // create none

	known sync.Map // of topics that are there
}

func (t *topics) ensure(ctx context.Context, topic string) error {
	if t.existing {
		return nil
	}
	if _, ok := t.known.Load(topic); ok {
		return nil
	}
	if err := ignoreExisting(t.instance.CreateStream(ctx, topic, t.config)); err != nil {
		return err
	}
	t.known.Store(topic, struct{}{})
	return nil
}
