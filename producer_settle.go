package rheo

import (
	"context"
	"time"

	"github.com/rheo-go/rheo/internal/inflight"
)

// Settle ends deliveries, with a result for each in the order given, as
// [Instance.Settle] does. What several callers settle at a time joins into one
// call to the store. It returns when the store has answered; if ctx ends before,
// with ctx's error, and the settlements still go through.
//
// A settled or lost lease leaves flight. One whose settle failed does, too: after
// [ErrFailed] and its like the event is nacked, to be redelivered at once; after
// [ErrUnavailable] or [ErrAmbiguous] the lease is left to expire, as the
// settlement may have gone through. Settling such a one again is allowed, and the
// store decides.
func (p *Producer) Settle(ctx context.Context, settlements ...Settlement) ([]error, error) {
	if len(settlements) == 0 {
		return nil, ctx.Err()
	}
	stream, group, settlements, err := checkSettlements(settlements)
	if err != nil {
		return nil, err
	}
	if stream != p.options.Stream || group != p.options.Group {
		return nil, invalidf("leases", "are of %s/%s, the producer's are of %s/%s", stream, group, p.options.Stream, p.options.Group)
	}
	if c := p.current(); c != nil {
		if reply := c.settle(settlements); reply != nil {
			return reply.wait(ctx)
		}
	}
	return p.instance.Settle(ctx, settlements...)
}

// Ack settles the leases as done. Like its siblings it returns nil if every lease
// was still held, else the failures joined; [Producer.Settle] tells which lease
// each belongs to, and what becomes of it.
func (p *Producer) Ack(ctx context.Context, leases ...*Lease) error {
	return settleAll(ctx, p.Settle, leases, Settlement{Outcome: OutcomeAck})
}

// Nack makes the leases' events available again after the delay, 0 for at once.
func (p *Producer) Nack(ctx context.Context, reason string, delay time.Duration, leases ...*Lease) error {
	return settleAll(ctx, p.Settle, leases, Settlement{Outcome: OutcomeNack, Reason: reason, Delay: delay})
}

// Reject turns the leases' events into dead letters.
func (p *Producer) Reject(ctx context.Context, reason string, leases ...*Lease) error {
	return settleAll(ctx, p.Settle, leases, Settlement{Outcome: OutcomeReject, Reason: reason})
}

// Release gives the leases back without spending an attempt.
func (p *Producer) Release(ctx context.Context, leases ...*Lease) error {
	return settleAll(ctx, p.Settle, leases, Settlement{Outcome: OutcomeRelease})
}

// Finish settles the lease as a [Group] does when its [Handler] returns err: nil
// acks, [Reject], [RetryAfter] and [Release] do what they say, and any other error
// nacks with ProducerOptions.RetryBackoff. The error it returns is the store's.
func (p *Producer) Finish(ctx context.Context, lease *Lease, err error) error {
	if lease == nil {
		return invalidf("lease", "must not be nil")
	}
	results, failed := p.Settle(ctx, settlementOf(lease, err, p.options.RetryBackoff))
	if failed != nil {
		return failed
	}
	return results[0]
}

// Confirm frees leases that the caller has settled by another way, such as in a
// transaction of its own: they are renewed no more and make room for others. One
// that is never confirmed is freed when its next renewal is refused.
func (p *Producer) Confirm(leases ...*Lease) {
	c := p.current()
	if c == nil {
		return
	}
	var confirmed []*delivered
	for _, lease := range leases {
		if d := c.held(lease); d != nil && d.decide() {
			d.endContexts(nil)
			confirmed = append(confirmed, d)
		}
	}
	c.flight.land(confirmed)
}

// Context returns a context to handle the lease's event with: it ends with parent;
// with [ErrStaleLease] as its cause when the lease is lost, or was not held to
// begin with; with [ErrClosed] when the time to drain is over; and when the lease
// has been settled.
func (p *Producer) Context(parent context.Context, lease *Lease) context.Context {
	if c := p.current(); c != nil {
		if d := c.held(lease); d != nil {
			return d.context(parent)
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(Errorf(ErrStaleLease, "the lease is not in flight"))
	return ctx
}

// held returns what is in flight under the lease, or nil.
func (c *consumer) held(lease *Lease) *delivered {
	if lease == nil {
		return nil
	}
	d, ok := c.flight.Get(inflight.Place{Partition: lease.Partition, Sequence: lease.Sequence})
	if !ok || d.held.LeaseID != lease.LeaseID {
		return nil
	}
	return d
}

// settle hands settlements to the settler, or returns nil if that has closed. What
// is not in flight, or not any more, is the store's to judge.
func (c *consumer) settle(settlements []Settlement) *reply {
	all := newReply(len(settlements))
	answers := make([]answer, len(settlements))
	outcomes := make([]outcome, 0, len(settlements))
	for at, s := range settlements {
		d := c.held(s.Lease)
		if d == nil || !d.decide() {
			d = &delivered{held: *s.Lease}
		}
		s.Lease = &d.held
		answers[at] = answer{to: all, at: at}
		outcomes = append(outcomes, outcome{of: d, settlement: s, answer: &answers[at]})
		if s.Outcome.reopens() {
			outcomes = append(outcomes, giveUpBehind(d)...)
		}
	}
	if !c.settler.submit(outcomes...) {
		return nil
	}
	return all
}

// giveUpBehind gives back what its holder has of the lane behind d.
func giveUpBehind(d *delivered) (outcomes []outcome) {
	d.breakLane()
	for _, behind := range d.lane.left() {
		if behind.held.Sequence > d.held.Sequence && behind.lose(errHeldUp) {
			outcomes = append(outcomes, releaseOf(behind))
		}
	}
	return outcomes
}

// wait returns when the store has answered, or ctx has ended.
func (r *reply) wait(ctx context.Context) ([]error, error) {
	select {
	case <-r.done:
		return r.results, nil
	case <-ctx.Done():
	}
	select {
	case <-r.done: // the context may be that of a lease, which ends with its settling
		return r.results, nil
	default:
		return nil, ctx.Err()
	}
}
