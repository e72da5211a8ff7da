package rheo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rheo-go/rheo/internal/inflight"
)

// settler settles outcomes in batches that form by themselves: one call to the
// store is under way at a time, and what is decided meanwhile makes the next.
type settler struct {
	instance *Instance
	flight   *inflight.Set[*delivered]
	retries  *retries
	timeout  time.Duration
	logger   *slog.Logger
	outage   outage

	mu      sync.Mutex
	waiting []outcome
	wake    chan struct{}
	stop    chan struct{}
}

// outcome is what is to become of a delivery.
type outcome struct {
	of         *delivered
	settlement Settlement
}

func newSettler(i *Instance, flight *inflight.Set[*delivered], r *retries, timeout time.Duration, logger *slog.Logger) *settler {
	return &settler{
		instance: i, flight: flight, retries: r, timeout: timeout, logger: logger,
		outage: outage{logger: logger, operation: "settle"},
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
	}
}

// submit hands outcomes over. Those of one call are settled together.
func (s *settler) submit(outcomes ...outcome) {
	s.mu.Lock()
	s.waiting = append(s.waiting, outcomes...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run settles until close has been called and nothing waits. ctx must outlive
// that: what is handled shall be settled also while shutting down.
func (s *settler) run(ctx context.Context) {
	for {
		batch := s.take()
		if len(batch) > 0 {
			s.settle(ctx, batch)
			continue
		}
		select {
		case <-s.wake:
		case <-s.stop:
			if batch := s.take(); len(batch) > 0 {
				s.settle(ctx, batch)
				continue
			}
			return
		}
	}
}

func (s *settler) close() { close(s.stop) }

func (s *settler) take() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) <= MaxBatch {
		batch := s.waiting
		s.waiting = nil
		return batch
	}
	batch := s.waiting[:MaxBatch:MaxBatch]
	s.waiting = s.waiting[MaxBatch:]
	return batch
}

// settle carries out the policy: a lost lease is dropped; after a definite
// failure the event is nacked, to be redelivered at once; if the outcome is not
// known or the store is away, the lease is left to expire, so that fencing
// protects an ack that may have gone through.
func (s *settler) settle(ctx context.Context, batch []outcome) {
	batch = s.inOrder(batch)
	errs := s.call(ctx, batch)
	landed := make([]*delivered, 0, len(batch))
	var again []outcome
	for at := range batch {
		o := &batch[at]
		switch err := errs[at]; Classify(err) {
		case ReasonNone:
			s.settled(ctx, o)
		case ReasonFailed, ReasonInvalid, ReasonUnsupported, ReasonConflict:
			o.of.lane.breakOff()
			if o.settlement.Outcome != OutcomeNack {
				again = append(again, outcome{o.of, Settlement{
					Lease: o.of.delivery.Lease, Outcome: OutcomeNack, Reason: "settle failed: " + err.Error(),
				}})
				continue
			}
		default:
			o.of.lane.breakOff()
		}
		landed = append(landed, o.of)
	}
	land(s.flight, landed)
	if len(again) > 0 {
		s.settle(ctx, again)
	}
}

// inOrder turns what follows a failure in its lane into a release: it was
// handled, but acking it would let it overtake the event that failed.
func (s *settler) inOrder(batch []outcome) []outcome {
	for at := range batch {
		o := &batch[at]
		if o.settlement.Outcome == OutcomeAck && o.of.lane.isBroken() {
			o.settlement = Settlement{Lease: o.of.delivery.Lease, Outcome: OutcomeRelease}
		}
	}
	return batch
}

// call returns an error or nil for each outcome.
func (s *settler) call(ctx context.Context, batch []outcome) []error {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	settlements := make([]Settlement, len(batch))
	for at := range batch {
		settlements[at] = batch[at].settlement
	}
	errs, err := s.instance.Settle(bounded, settlements...)
	if err == nil {
		s.outage.worked(ctx)
		return errs
	}
	s.outage.failed(ctx, err)
	errs = make([]error, len(batch))
	for at := range errs {
		errs[at] = err
	}
	return errs
}

func (s *settler) settled(ctx context.Context, o *outcome) {
	level := slog.LevelDebug
	switch o.settlement.Outcome {
	case OutcomeAck:
		return
	case OutcomeNack, OutcomeRelease:
		s.retries.add(time.Now().Add(o.settlement.Delay))
	case OutcomeReject:
		level = slog.LevelWarn
	}
	lease := o.settlement.Lease
	s.logger.LogAttrs(ctx, level, "delivery not acked",
		slog.String("outcome", o.settlement.Outcome.String()), slog.String("event", lease.ID),
		slog.Int("partition", lease.Partition), slog.Int64("sequence", lease.Sequence),
		slog.Int("attempt", lease.Attempt), slog.String("reason", o.settlement.Reason))
}
