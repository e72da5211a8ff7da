package rheo

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// renewer renews all that is in flight at half the lease, in batches, and ends
// the handler's context where a lease turns out to be lost.
type renewer struct {
	instance *Instance
	flight   *flight
	duration time.Duration
	timeout  time.Duration
	backoff  Backoff
	outage   outage
	behind   atomic.Bool   // the last renewal has failed
	caughtUp chan struct{} // receives after each that has not
}

func newRenewer(i *Instance, f *flight, o *consumerOptions) *renewer {
	return &renewer{
		instance: i, flight: f, duration: o.LeaseDuration,
		// A renewal that hangs leaves time for another before the leases expire.
		timeout: min(o.SettleTimeout, o.LeaseDuration/2),
		backoff: o.StoreBackoff,
		outage:  outage{report: f.report, operation: OperationRenew},

		caughtUp: make(chan struct{}, 1),
	}
}

// run renews until ctx ends.
func (r *renewer) run(ctx context.Context) {
	timer := time.NewTimer(r.duration / 2)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.flight.doubt:
		}
		next := time.Now().Add(r.duration / 2) // from the beginning: a slow store takes nothing off it
		if fails := r.renewAll(ctx); fails > 0 {
			next = earlier(next, time.Now().Add(r.backoff.Delay(fails)))
		}
		timer.Reset(time.Until(next))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// renewAll returns how many times in a row it has failed, if it has.
func (r *renewer) renewAll(ctx context.Context) (fails int) {
	var failure error
	for batch := range slices.Chunk(r.flight.All(), MaxBatch) {
		if err := r.renew(ctx, batch); err != nil {
			failure = err
		}
	}
	if ctx.Err() != nil { // the run is over, and nothing in flight any more
		return 0
	}
	r.behind.Store(failure != nil && !fatal(failure)) // what is fatal the next fetch shall tell
	if failure != nil {
		return r.outage.failed(ctx, failure)
	}
	r.outage.worked(ctx)
	signal(r.caughtUp)
	return 0
}

// isBehind reports whether leases may expire because renewing has failed. To fetch
// then would be to take deliveries from this process' own handlers.
func (r *renewer) isBehind() bool { return r.behind.Load() && r.flight.Len() > 0 }

// renew returns the first failure. What failed is still held as far as this
// process knows.
func (r *renewer) renew(ctx context.Context, batch []*delivered) (failure error) {
	var lost []*delivered
	var causes []error
	for at, err := range r.call(ctx, batch) {
		switch {
		case isLost(err):
			lost, causes = append(lost, batch[at]), append(causes, err)
		case err != nil && failure == nil:
			failure = err
		}
	}
	r.flight.lose(ctx, lost, causes)
	return failure
}

// call returns an error or nil for each delivery.
func (r *renewer) call(ctx context.Context, batch []*delivered) []error {
	leases := make([]*Lease, len(batch))
	for at, d := range batch {
		leases[at] = &d.held
	}
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	results, err := r.instance.Renew(bounded, r.duration, leases...)
	if err != nil {
		return slices.Repeat([]error{err}, len(batch))
	}
	errs := make([]error, len(batch))
	for at := range results {
		errs[at] = results[at].Err
	}
	return errs
}
