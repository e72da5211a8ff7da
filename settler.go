package rheo

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// settler settles outcomes in batches that form by themselves: one call to the
// store is under way at a time, and what is decided meanwhile makes the next.
type settler struct {
	instance *Instance
	flight   *flight
	timeout  time.Duration
	outage   outage

	mu      sync.Mutex
	closed  bool
	waiting []outcome
	wake    chan struct{}
	stop    chan struct{}
}

// outcome is what is to become of a delivery.
type outcome struct {
	of         *delivered
	settlement Settlement
	fallback   bool // it stands in for one that the store refused

	answer *answer // who waits for what the store says, if anybody does
}

// answer is one of a reply.
type answer struct {
	to      *reply
	at      int
	instead error // the answer, if it is not what the store says to the settlement
}

// give answers with err, unless another answer stands.
func (a *answer) give(err error) {
	if a != nil {
		a.to.set(a.at, cmp.Or(a.instead, err))
	}
}

// stand makes err the answer, whatever the store will say.
func (a *answer) stand(err error) {
	if a != nil {
		a.instead = err
	}
}

// reply is what the store says to the settlements of one caller.
type reply struct {
	results []error
	left    atomic.Int64
	done    chan struct{} // closed when results is complete
}

func newReply(n int) *reply {
	r := &reply{results: make([]error, n), done: make(chan struct{})}
	r.left.Store(int64(n))
	return r
}

func (r *reply) set(at int, err error) {
	r.results[at] = err
	if r.left.Add(-1) == 0 {
		close(r.done)
	}
}

func releaseOf(d *delivered) outcome {
	return outcome{of: d, settlement: Settlement{Lease: &d.held, Outcome: OutcomeRelease}}
}

// nack is what takes the place of an outcome that the store refused: a nack as
// it was asked for, or else one that has the event redelivered at once.
func (o *outcome) nack(refusal error) outcome {
	settlement := o.settlement
	if settlement.Outcome != OutcomeNack {
		reason := settlement.Outcome.String() + " failed: " + refusal.Error()
		settlement = Settlement{Lease: &o.of.held, Outcome: OutcomeNack, Reason: reason}
	}
	o.answer.stand(refusal)
	return outcome{of: o.of, settlement: settlement, fallback: true, answer: o.answer}
}

func newSettler(i *Instance, f *flight, timeout time.Duration) *settler {
	return &settler{
		instance: i, flight: f, timeout: timeout,
		outage: outage{report: f.report, operation: OperationSettle},
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
	}
}

// submit hands outcomes over. Those of one call are settled together. It reports
// false, and does nothing, if the settler has been closed.
func (s *settler) submit(outcomes ...outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(outcomes) > 0 {
		s.waiting = append(s.waiting, outcomes...)
		signal(s.wake)
	}
	return true
}

// run settles until close has been called and nothing waits. ctx must outlive
// that: what is handled shall be settled also while shutting down.
func (s *settler) run(ctx context.Context) {
	for stopped := false; ; {
		batch := s.take()
		switch {
		case len(batch) > 0:
			s.settle(ctx, batch)
			continue
		case stopped:
			return
		}
		select {
		case <-s.wake:
		case <-s.stop:
			stopped = true
		}
	}
}

func (s *settler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.stop)
}

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
	keepOrder(batch)
	landed := make([]*delivered, 0, len(batch))
	var lost []*delivered
	var refused []outcome
	errs := s.call(ctx, batch)
	for at, err := range errs {
		o := &batch[at]
		if err != nil {
			o.of.breakLane()
		}
		if isRefusal(err) && !o.fallback {
			refused = append(refused, o.nack(err))
			continue
		}
		landed = append(landed, o.of)
		switch {
		case err == nil:
			s.settled(ctx, o)
		case isLost(err):
			lost = append(lost, o.of)
		}
	}
	s.flight.land(landed)
	s.reply(batch, errs)
	if len(lost) > 0 {
		s.flight.report.lost(ctx, lost)
		signal(s.flight.doubt)
	}
	if len(refused) > 0 {
		s.settle(ctx, refused)
	}
}

// reply answers who waits for what has landed, and then ends its contexts: one of
// them may be what the caller waits with.
func (s *settler) reply(batch []outcome, errs []error) {
	for at, err := range errs {
		o := &batch[at]
		if isRefusal(err) && !o.fallback {
			continue
		}
		o.answer.give(err)
		if isLost(err) {
			o.of.endContexts(asStale(err))
		} else {
			o.of.endContexts(nil)
		}
	}
}

// isRefusal reports whether an error means that the store has changed nothing,
// and will not if it is asked again.
func isRefusal(err error) bool {
	switch Classify(err) {
	case ReasonFailed, ReasonInvalid, ReasonUnsupported, ReasonConflict:
		return true
	}
	return false
}

// keepOrder turns what would end a delivery before one that has failed earlier in
// its lane into a release: both are handled again, in order.
func keepOrder(batch []outcome) {
	for at := range batch {
		o := &batch[at]
		if !o.settlement.Outcome.reopens() && o.of.heldUp() {
			o.settlement = releaseOf(o.of).settlement
			o.answer.stand(errHeldUp)
		}
	}
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
	if err != nil {
		errs = slices.Repeat([]error{err}, len(batch))
	}
	s.report(ctx, errs, batch[0].fallback)
	return errs
}

// report does not take a fallback that worked for the end of an outage: what it
// stands in for had just failed.
func (s *settler) report(ctx context.Context, errs []error, fallback bool) {
	failed := slices.IndexFunc(errs, func(err error) bool { return err != nil && !isLost(err) })
	switch {
	case failed >= 0:
		s.outage.failed(ctx, errs[failed])
	case !fallback:
		s.outage.worked(ctx)
	}
}

// settled takes note of an outcome that the store has taken.
func (s *settler) settled(ctx context.Context, o *outcome) {
	if o.settlement.Outcome.reopens() {
		s.flight.retries.add(o.settlement.Delay)
	}
	s.flight.report.settled(ctx, &o.settlement)
}
