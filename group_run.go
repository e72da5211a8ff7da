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
// that call the handler, and for a BatchHandler who gathers its windows.
type groupRun struct {
	*consumer
	handler     Handler
	concurrency int
	windows     *windows // if there is a BatchHandler in the handler's place
	enough      int64    // deliveries that keep a worker busy

	queue       chan []*delivered // parts to handle in order; of one if order does not matter
	queued      atomic.Int64      // deliveries in the queue
	busy        sync.WaitGroup    // the workers
	endHandling context.CancelCauseFunc
}

func newGroupRun(c *consumer, g *Group) *groupRun {
	r := &groupRun{
		consumer: c, handler: g.handler, concurrency: g.concurrency, enough: 1,
		queue: make(chan []*delivered, c.options.MaxDemand),
	}
	if g.batchHandler != nil {
		r.windows = &windows{
			handler: g.batchHandler, size: g.batchSize, wait: g.batchWait, ready: make(chan []*delivered),
		}
		r.enough = int64(g.batchSize)
	}
	return r
}

func (r *groupRun) start(ctx context.Context) {
	handling, endHandling := context.WithCancelCause(ctx)
	r.endHandling = endHandling
	ready, handle := r.queue, r.handleInOrder
	if r.windows != nil {
		ready, handle = r.windows.ready, r.handleWindow
		r.busy.Go(func() { r.windows.collect(r.queue) })
	}
	for range r.concurrency {
		r.busy.Go(func() {
			for part := range ready {
				r.taken(part)
				handle(handling, part)
			}
		})
	}
}

// demand is none while there is enough to do and what could be asked for would
// make a small batch.
func (r *groupRun) demand() int {
	free := r.flight.Free()
	if r.queued.Load() >= r.enough && free < (r.options.MaxDemand+1)/2 {
		return 0
	}
	if r.windows != nil && r.ordered { // what is fetched of a partition must fit into one
		free = min(free, r.windows.size)
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

// taken notes that a worker has taken deliveries off the queue.
func (r *groupRun) taken(part []*delivered) {
	if r.queued.Add(-int64(len(part))) < r.enough {
		r.flight.Nudge()
	}
}

// handleInOrder handles a part of the queue. Once the group drains, what is still
// queued is given back.
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
		if settlement.Outcome.reopens() {
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
	infos, results := observations(len(batch))
	for at, d := range batch {
		infos[at] = deliveryInfo(&d.held)
	}
	start := HandlerStart{
		Instance: r.instance.name, Stream: r.options.Stream, Group: r.options.Group, ConsumerID: r.options.ConsumerID,
		Deliveries: infos,
	}
	observer := r.instance.observers.handler
	ctx = observer.StartHandler(ctx, start)
	began := time.Now()
	call(ctx, results)
	observer.EndHandler(ctx, HandlerEnd{
		HandlerStart: start, Duration: time.Since(began), Results: results, Panicked: isPanic(results[0].Err),
	})
}

// observations returns room for what an observer is told of n deliveries: in one
// piece for the one that a handler is called with.
func observations(n int) ([]DeliveryInfo, []HandlerResult) {
	if n > 1 {
		return make([]DeliveryInfo, n), make([]HandlerResult, n)
	}
	one := new(struct {
		info   [1]DeliveryInfo
		result [1]HandlerResult
	})
	return one.info[:], one.result[:]
}

func isPanic(err error) bool {
	if err == nil {
		return false
	}
	var panicked *panicError
	return errors.As(err, &panicked)
}
