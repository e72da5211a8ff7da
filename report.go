package rheo

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// reporter tells the logger and the observer how a runtime fares.
type reporter struct {
	logger      *slog.Logger
	observer    RuntimeObserver // or nil
	runtime     RuntimeEvent    // the fields that all its events share
	maxAttempts atomic.Int64    // the group's; 0 until known
}

func newReporter(i *Instance, kind RuntimeKind, o *consumerOptions) *reporter {
	return &reporter{
		logger:   o.Logger.With("stream", o.Stream, "group", o.Group, "consumer", o.ConsumerID),
		observer: i.observers.runtime,
		runtime: RuntimeEvent{
			Runtime: kind, Instance: i.name, Stream: o.Stream, Group: o.Group, ConsumerID: o.ConsumerID,
		},
	}
}

// observe tells the observer, if there is one, of an event that set completes.
func (r *reporter) observe(ctx context.Context, kind RuntimeEventKind, set func(*RuntimeEvent)) {
	if r.observer == nil {
		return
	}
	event := r.runtime
	event.Kind = kind
	if set != nil {
		set(&event)
	}
	event.Reason = Classify(event.Err)
	r.observer.ObserveRuntime(ctx, event)
}

func (r *reporter) outageBegan(ctx context.Context, operation Operation, err error) {
	r.logger.LogAttrs(ctx, slog.LevelWarn, "store operation fails; going on trying",
		slog.String("operation", string(operation)), slog.String("reason", string(Classify(err))), slog.Any("error", err))
	r.observe(ctx, RuntimeOutageBegan, func(e *RuntimeEvent) { e.Operation, e.Err = operation, err })
}

func (r *reporter) outageEnded(ctx context.Context, operation Operation, failures int) {
	r.logger.LogAttrs(ctx, slog.LevelInfo, "store operation works again",
		slog.String("operation", string(operation)), slog.Int("failures", failures))
	r.observe(ctx, RuntimeOutageEnded, func(e *RuntimeEvent) { e.Operation, e.Count = operation, failures })
}

// lost reports once for all: a reset loses all that is in flight.
func (r *reporter) lost(ctx context.Context, lost []*delivered) {
	if len(lost) == 0 {
		return
	}
	first := &lost[0].held
	r.logger.LogAttrs(ctx, slog.LevelWarn, "leases lost",
		slog.Int("leases", len(lost)), slog.String("event", first.ID), slog.Int("partition", first.Partition),
		slog.Int64("sequence", first.Sequence), slog.Int("attempt", first.Attempt))
	r.observe(ctx, RuntimeLeasesLost, func(e *RuntimeEvent) { e.Count = len(lost) })
}

// settled reports an outcome that the store has taken, unless it is an ack.
func (r *reporter) settled(ctx context.Context, s *Settlement) {
	if s.Outcome == OutcomeAck {
		return
	}
	level := slog.LevelDebug
	if s.Outcome == OutcomeReject {
		level = slog.LevelWarn
	}
	r.logger.LogAttrs(ctx, level, "delivery not acked",
		slog.String("outcome", s.Outcome.String()), slog.String("event", s.Lease.ID),
		slog.Int("partition", s.Lease.Partition), slog.Int64("sequence", s.Lease.Sequence),
		slog.Int("attempt", s.Lease.Attempt), slog.String("reason", s.Reason))
	if r.endsAsDeadLetter(s) {
		r.observe(ctx, RuntimeDeadLettered, func(e *RuntimeEvent) { e.Count, e.Delivery = 1, deliveryInfo(s.Lease) })
	}
}

func (r *reporter) endsAsDeadLetter(s *Settlement) bool {
	most := r.maxAttempts.Load()
	return s.Outcome == OutcomeReject || s.Outcome == OutcomeNack && most > 0 && int64(s.Lease.Attempt) >= most
}

func (r *reporter) panicked(ctx context.Context, d *delivered, err error, stack []byte) {
	r.logger.LogAttrs(ctx, slog.LevelError, err.Error(),
		slog.String("event", d.held.ID), slog.Int("partition", d.held.Partition),
		slog.Int64("sequence", d.held.Sequence), slog.String("stack", string(stack)))
}
