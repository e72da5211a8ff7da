package rheo

import (
	"context"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// BatchHandler handles a window of deliveries at once. It returns nil to ack all of
// them, or else an outcome for each, in the order given, as a [Handler] does for
// one; slices.Repeat gives all the same. A panic, or another number of outcomes,
// nacks all with the group's RetryBackoff. The outcomes of a window are settled
// together, but each by itself: one lost lease does not drag the others along.
//
// All that is in the window is renewed until the handler returns. ctx ends when
// every lease of it is lost, and when the time to drain is over; [Delivery.Lost]
// tells which are. If the process dies before, the whole window comes again.
//
// In a group with [OrderingPartition] what the window holds of a partition is in
// order and is all that is in flight of it. What lies in the window behind a
// delivery that is nacked or released comes again with it, acked or not.
type BatchHandler func(ctx context.Context, batch []*Delivery) []error

// The defaults of [GroupOptions] for a BatchHandler.
const (
	DefaultBatchSize = 100
	DefaultBatchWait = time.Second
)

// windows gathers deliveries for a [BatchHandler].
type windows struct {
	handler BatchHandler
	size    int
	wait    time.Duration
	ready   chan []*delivered
}

// collect gathers what the queue brings until it is closed and empty. A window is
// handed to a worker once it is full, or wait is over since its first delivery;
// while no worker is free it goes on growing. Parts are not cut.
func (w *windows) collect(queue <-chan []*delivered) {
	defer close(w.ready)
	timer := time.NewTimer(w.wait)
	defer timer.Stop()
	var window, next []*delivered // next is a part that did not fit
	due := false
	for queue != nil || len(window) > 0 {
		in, out := queue, w.ready
		full := len(window) >= w.size || next != nil
		if full {
			in = nil
		}
		if len(window) == 0 || !full && !due && queue != nil {
			out = nil
		}
		select {
		case part, open := <-in:
			switch {
			case !open:
				queue = nil
			case len(window) == 0:
				window, due = part, false
				timer.Reset(w.wait)
			case len(window)+len(part) > w.size:
				next = part
			default:
				window = append(window, part...)
			}
		case <-timer.C:
			due = true
		case out <- window:
			window, next, due = next, nil, false
			timer.Reset(w.wait)
		}
	}
}

// handleWindow hands to the handler what of the window is still to be handled.
func (r *groupRun) handleWindow(handling context.Context, window []*delivered) {
	ctx, cancel := context.WithCancelCause(handling)
	defer cancel(nil)
	batch := r.beginWindow(window, cancel)
	if len(batch) == 0 {
		return
	}
	var outcomes []outcome
	if r.instance.observers.handler == nil {
		settlements, _ := r.callBatch(ctx, batch)
		outcomes, _ = decideAll(batch, settlements)
	} else {
		r.observeHandler(ctx, batch, func(ctx context.Context, results []HandlerResult) {
			settlements, errs := r.callBatch(ctx, batch)
			var lost []bool
			outcomes, lost = decideAll(batch, settlements)
			for at := range results {
				results[at] = HandlerResult{Outcome: settlements[at].Outcome, Err: errs[at], Lost: lost[at]}
			}
		})
	}
	r.settler.submit(outcomes...)
}

// beginWindow begins with all of the window that is neither lost nor given back.
// cancel is called when all of it is lost.
func (r *groupRun) beginWindow(window []*delivered, cancel context.CancelCauseFunc) (batch []*delivered) {
	if r.isDraining() {
		r.settler.submit(releases(window)...)
		return nil
	}
	var held atomic.Int64
	held.Store(int64(len(window)))
	loseOne := func(cause error) {
		if held.Add(-1) == 0 {
			cancel(cause)
		}
	}
	for at, d := range window {
		if d.heldUp() {
			r.settler.submit(releases(window[at : at+1])...)
		}
		if d.begin(loseOne) {
			batch = append(batch, d)
		} else {
			loseOne(errLost)
		}
	}
	return batch
}

// errLost is the cause of a context whose leases were lost before it began.
var errLost = Errorf(ErrStaleLease, "the lease was lost before its handler began")

// callBatch returns a settlement for each delivery, and the error that it is made
// of.
func (r *groupRun) callBatch(ctx context.Context, batch []*delivered) (settlements []Settlement, errs []error) {
	defer func() {
		if v := recover(); v != nil {
			err := &panicError{value: v}
			r.report.panicked(ctx, batch[0], err, debug.Stack())
			settlements, errs = r.settlementsOf(batch, slices.Repeat([]error{err}, len(batch)))
		}
	}()
	deliveries := make([]*Delivery, len(batch))
	for at, d := range batch {
		deliveries[at] = &d.delivery
	}
	errs = r.windows.handler(ctx, deliveries)
	switch len(errs) {
	case len(batch):
	case 0:
		errs = make([]error, len(batch))
	default:
		err := Errorf(ErrInvalid, "the batch handler returned %d outcomes for %d deliveries", len(errs), len(batch))
		r.report.logger.ErrorContext(ctx, err.Error())
		errs = slices.Repeat([]error{err}, len(batch))
	}
	return r.settlementsOf(batch, errs)
}

func (r *groupRun) settlementsOf(batch []*delivered, errs []error) ([]Settlement, []error) {
	settlements := make([]Settlement, len(batch))
	for at, d := range batch {
		settlements[at] = settlementOf(&d.held, errs[at], r.options.RetryBackoff)
	}
	return settlements, errs
}

// decideAll returns the outcomes that count, and which do not. All that holds up
// others does so before any is settled.
func decideAll(batch []*delivered, settlements []Settlement) (outcomes []outcome, lost []bool) {
	outcomes, lost = make([]outcome, 0, len(batch)), make([]bool, len(batch))
	for at, d := range batch {
		if lost[at] = !d.decide(); lost[at] {
			continue
		}
		if settlements[at].Outcome.reopens() {
			d.breakLane()
		}
		outcomes = append(outcomes, outcome{of: d, settlement: settlements[at]})
	}
	return outcomes, lost
}
