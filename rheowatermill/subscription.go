package rheowatermill

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
)

// subscription hands out one message at a time. Beside it run one goroutine that
// receives ahead, and one that settles what was acked, as many as have come
// together meanwhile.
type subscription struct {
	config   *SubscriberConfig
	producer *rheo.Producer
	out      chan<- *message.Message
	logger   *slog.Logger

	ahead chan *rheo.Lease // closed when no more are received
	acked chan *rheo.Lease // closed when no more are handed out
}

func newSubscription(config *SubscriberConfig, producer *rheo.Producer, out chan<- *message.Message, logger *slog.Logger) *subscription {
	return &subscription{
		config: config, producer: producer, out: out, logger: logger,
		ahead: make(chan *rheo.Lease, config.Prefetch),
		acked: make(chan *rheo.Lease, config.Prefetch),
	}
}

// run ends with ctx, or when the producer does.
func (s *subscription) run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	defer close(s.acked)
	beside.Go(func() { s.receive(ctx) })
	beside.Go(func() { s.settleAcked(ctx) })
	var left []*rheo.Lease
	for lease := range s.ahead {
		if !s.handle(ctx, lease) {
			left = append(left, lease)
		}
	}
	s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeRelease}, left...)
}

// receive asks for as many as there is room for, so that nothing waits here that
// another subscriber could have.
func (s *subscription) receive(ctx context.Context) {
	defer close(s.ahead)
	for {
		leases, err := s.producer.Receive(ctx, s.room())
		if err != nil {
			if ctx.Err() == nil {
				s.logger.LogAttrs(ctx, slog.LevelError, "subscription ended", slog.Any("error", err))
			}
			return
		}
		for _, lease := range leases {
			s.ahead <- lease // it is emptied to the end
		}
	}
}

func (s *subscription) room() int { return max(1, cap(s.ahead)-len(s.ahead)) }

// handle hands a message out and has it settled as its subscriber says. It
// reports false if ctx has ended before the subscriber said anything.
func (s *subscription) handle(ctx context.Context, lease *rheo.Lease) (said bool) {
	held := s.producer.Context(ctx, lease)
	d := &delivery{lease: lease}
	msg, err := newMessage(held, d)
	if err != nil {
		s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeReject, Reason: err.Error()}, lease)
		return true
	}
	select {
	case <-held.Done():
		return ctx.Err() == nil // else it was lost before anybody had it
	default:
	}
	select {
	case s.out <- msg:
	case <-held.Done():
		return ctx.Err() == nil
	}
	select {
	case <-msg.Acked():
		s.acked <- lease
	case <-msg.Nacked():
		s.settle(ctx, s.nack(d), lease)
	case <-held.Done():
		return s.atTheEnd(ctx, msg, d)
	}
	return true
}

// atTheEnd is for a message whose context has ended, by what its subscriber may
// have said at the same time.
func (s *subscription) atTheEnd(ctx context.Context, msg *message.Message, d *delivery) (said bool) {
	select {
	case <-msg.Acked():
		s.acked <- d.lease
		return true
	case <-msg.Nacked():
		s.settle(ctx, s.nack(d), d.lease)
		return true
	default:
		return ctx.Err() == nil
	}
}

func (s *subscription) nack(d *delivery) rheo.Settlement {
	settlement := rheo.Settlement{Outcome: s.config.NackAs, Reason: "nacked"}
	if settlement.Outcome == rheo.OutcomeNack && s.config.NackBackoff.Max > 0 {
		settlement.Delay = s.config.NackBackoff.Delay(d.lease.Attempt)
	}
	return d.chosen(settlement)
}

// settleAcked settles together what is acked while the store is at the last ones.
func (s *subscription) settleAcked(ctx context.Context) {
	for lease := range s.acked {
		batch := []*rheo.Lease{lease}
		for len(s.acked) > 0 && len(batch) < rheo.MaxBatch {
			batch = append(batch, <-s.acked)
		}
		s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeAck}, batch...)
	}
}

// settle settles the leases alike, also when ctx has ended.
func (s *subscription) settle(ctx context.Context, like rheo.Settlement, leases ...*rheo.Lease) {
	if len(leases) == 0 {
		return
	}
	settlements := make([]rheo.Settlement, len(leases))
	for i, lease := range leases {
		settlements[i] = like
		settlements[i].Lease = lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.CloseTimeout)
	defer cancel()
	results, err := s.producer.Settle(ctx, settlements...)
	if err = errors.Join(append(results, err)...); err != nil && like.Outcome != rheo.OutcomeRelease {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "messages not settled; they will be delivered again",
			slog.String("outcome", like.Outcome.String()), slog.Any("error", err))
	}
}
