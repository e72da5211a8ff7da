package rheowatermill

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
)

// subscription hands out one message at a time.
type subscription struct {
	config   *SubscriberConfig
	producer *rheo.Producer
	out      chan<- *message.Message
	logger   *slog.Logger
	settling sync.WaitGroup
}

// run ends with ctx, or when the producer does.
func (s *subscription) run(ctx context.Context) {
	defer s.settling.Wait()
	for {
		leases, err := s.producer.Receive(ctx, s.config.Prefetch)
		if err != nil {
			if ctx.Err() == nil {
				s.logger.LogAttrs(ctx, slog.LevelError, "subscription ended", slog.Any("error", err))
			}
			return
		}
		for at, lease := range leases {
			if !s.handle(ctx, lease) {
				s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeRelease}, leases[at:]...)
				return
			}
		}
	}
}

// handle hands a message out and settles it as its subscriber says. It reports
// false if ctx has ended before the subscriber said anything.
func (s *subscription) handle(ctx context.Context, lease *rheo.Lease) (said bool) {
	held := s.producer.Context(ctx, lease)
	msgCtx, cancel := context.WithCancel(held)
	defer cancel()
	d := &delivery{lease: lease}
	msg, err := newMessage(msgCtx, d)
	if err != nil {
		s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeReject, Reason: err.Error()}, lease)
		return true
	}
	select {
	case s.out <- msg:
	case <-held.Done():
		return ctx.Err() == nil // else it was lost before anybody had it
	}
	select {
	case <-msg.Acked():
		s.settling.Go(func() { s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeAck}, lease) })
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
		s.settle(ctx, rheo.Settlement{Outcome: rheo.OutcomeAck}, d.lease)
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

// settle settles the leases alike, also when ctx has ended.
func (s *subscription) settle(ctx context.Context, like rheo.Settlement, leases ...*rheo.Lease) {
	settlements := make([]rheo.Settlement, len(leases))
	for i, lease := range leases {
		settlements[i] = like
		settlements[i].Lease = lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.CloseTimeout)
	defer cancel()
	results, err := s.producer.Settle(ctx, settlements...)
	if err = errors.Join(append(results, err)...); err != nil && like.Outcome != rheo.OutcomeRelease {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "message not settled; it will be delivered again",
			slog.String("outcome", like.Outcome.String()), slog.Any("error", err))
	}
}
