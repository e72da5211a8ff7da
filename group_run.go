package rheo

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// groupRun is one run of a [Group]: it adds to the consumer Concurrency workers
// that call the handler.
type groupRun struct {
	*consumer
	handler     Handler
	concurrency int

	queue       chan []*delivered // parts to handle in order; of one if order does not matter
	queued      atomic.Int64      // deliveries in the queue
	busy        sync.WaitGroup    // the workers
	endHandling context.CancelCauseFunc
}

func newGroupRun(c *consumer, g *Group) *groupRun {
	return &groupRun{
		consumer: c, handler: g.handler, concurrency: g.concurrency,
		queue: make(chan []*delivered, c.options.MaxDemand),
	}
}

func (r *groupRun) start(ctx context.Context) {
	handling, endHandling := context.WithCancelCause(ctx)
	r.endHandling = endHandling
	for range r.concurrency {
		r.busy.Go(func() { r.work(handling) })
	}
}

// demand is none while there is enough to do and what could be asked for would
// make a small batch.
func (r *groupRun) demand() int {
	free := r.flight.Free()
	if r.queued.Load() > 0 && free < (r.options.MaxDemand+1)/2 {
		return 0
	}
	return min(free, MaxBatch)
}

// accept queues: the queue has room for all that may be in flight.
func (r *groupRun) accept(parts [][]*delivered) {
	for _, part := range parts {
		r.queued.Add(int64(len(part)))
	}
	for _, part := range parts {
		r.queue <- part
	}
}

func (r *groupRun) finish() {
	close(r.queue)
	r.busy.Wait()
	r.endHandling(nil)
}

func (r *groupRun) expire(cause error, _ <-chan struct{}) { r.endHandling(cause) }

// work handles parts until the queue is closed. Once the group drains, what is
// still queued is given back.
func (r *groupRun) work(handling context.Context) {
	for part := range r.queue {
		if r.queued.Add(-int64(len(part))) == 0 {
			r.flight.Nudge()
		}
		r.handleInOrder(handling, part)
	}
}

func (r *groupRun) handleInOrder(handling context.Context, part []*delivered) {
	for at, d := range part {
		if r.isDraining() || d.heldUp() {
			r.settler.submit(releases(part[at:])...)
			return
		}
		settlement, counts := r.handle(handling, d)
		if !counts {
			continue
		}
		if settlement.Outcome == OutcomeNack || settlement.Outcome == OutcomeRelease {
			d.breakLane()
		}
		r.settler.submit(outcome{of: d, settlement: settlement})
	}
}

// handle runs the handler. The settlement counts unless the lease was lost, or
// given back, before the handler began or before it ended.
func (r *groupRun) handle(handling context.Context, d *delivered) (settlement Settlement, counts bool) {
	ctx, cancel := context.WithCancelCause(handling)
	defer cancel(nil)
	if !d.begin(cancel) {
		return Settlement{}, false
	}
	if r.instance.observers.handler == nil {
		settlement, _ = r.call(ctx, d)
		return settlement, d.decide()
	}
	r.observeHandler(ctx, []*delivered{d}, func(ctx context.Context, results []HandlerResult) {
		settlement, results[0].Err = r.call(ctx, d)
		counts = d.decide()
		results[0].Outcome, results[0].Lost = settlement.Outcome, !counts
	})
	return settlement, counts
}

// call returns what the handler's error, which a panic is too, makes of the
// delivery.
func (r *groupRun) call(ctx context.Context, d *delivered) (settlement Settlement, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v}
			r.report.panicked(ctx, d, err, debug.Stack())
			settlement = settlementOf(&d.held, err, r.options.RetryBackoff)
		}
	}()
	err = r.handler(ctx, &d.delivery)
	return settlementOf(&d.held, err, r.options.RetryBackoff), err
}

// observeHandler makes the call between the observer's two.
func (r *groupRun) observeHandler(
	ctx context.Context, batch []*delivered, call func(ctx context.Context, results []HandlerResult),
) {
	start := HandlerStart{
		Instance: r.instance.name, Stream: r.options.Stream, Group: r.options.Group, ConsumerID: r.options.ConsumerID,
		Deliveries: make([]DeliveryInfo, len(batch)),
	}
	for at, d := range batch {
		start.Deliveries[at] = deliveryInfo(&d.held)
	}
	observer := r.instance.observers.handler
	ctx = observer.StartHandler(ctx, start)
	began := time.Now()
	end := HandlerEnd{HandlerStart: start, Results: make([]HandlerResult, len(batch))}
	call(ctx, end.Results)
	end.Duration = time.Since(began)
	var panicked *panicError
	end.Panicked = errors.As(end.Results[0].Err, &panicked)
	observer.EndHandler(ctx, end)
}
