package rheo

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// groupRun is one run of a [Group]. Its goroutines: the fetch loop, which is
// Run's own; Concurrency workers; the settler; the renewer; and one that waits for
// the drain to begin.
type groupRun struct {
	instance *Instance
	options  GroupOptions
	ordered  bool
	logger   *slog.Logger

	flight  *flight
	settler *settler
	renewer *renewer

	queue  chan []*delivered // batches to handle in order; of one if order does not matter
	queued atomic.Int64      // deliveries in the queue
	lanes  map[int]*lane     // the fetch loop's: the last of each partition, if order matters
	busy   sync.WaitGroup    // the workers

	draining   <-chan struct{} // closed when the drain begins
	beginDrain func()
	drained    chan struct{} // closed when nothing is in flight any more
	asked      atomic.Bool   // Drain has been called
}

// newGroupRun makes a run that drains once draining is closed, which beginDrain
// does.
func newGroupRun(i *Instance, o GroupOptions, draining <-chan struct{}, beginDrain func()) *groupRun {
	logger := o.Logger.With("stream", o.Stream, "group", o.Group, "consumer", o.ConsumerID)
	f := newFlight(o.MaxDemand, logger)
	return &groupRun{
		instance: i, options: o, logger: logger,
		flight:   f,
		settler:  newSettler(i, f, o.SettleTimeout),
		renewer:  newRenewer(i, f, &o),
		queue:    make(chan []*delivered, o.MaxDemand),
		lanes:    make(map[int]*lane),
		draining: draining, beginDrain: beginDrain,
		drained: make(chan struct{}),
	}
}

// run starts everything, fetches, and takes everything down in the order in
// which each part needs the next. The drain begins when ctx ends.
func (r *groupRun) run(ctx context.Context) error {
	defer close(r.drained)
	if err := r.open(ctx); err != nil || r.isDraining() {
		return err
	}
	detached := context.WithoutCancel(ctx)
	handling, endHandling := context.WithCancelCause(detached)
	defer endHandling(nil)
	renewing, stopRenewing := context.WithCancel(detached)
	defer stopRenewing()
	handled := make(chan struct{})
	var settling, renewals, winding sync.WaitGroup
	settling.Go(func() { r.settler.run(detached) })
	renewals.Go(func() { r.renewer.run(renewing) })
	winding.Go(func() { r.windDown(endHandling, handled) })
	for range r.options.Concurrency {
		r.busy.Go(func() { r.work(handling) })
	}

	err := r.fetchLoop(detached)
	r.beginDrain()
	close(r.queue)
	r.busy.Wait()
	close(handled)
	winding.Wait()
	r.settler.close()
	settling.Wait()
	stopRenewing()
	renewals.Wait()
	return err
}

// windDown waits for the drain to begin, and then does what can wait neither for
// a fetch under way nor for a worker: it gives back what no handler has started,
// and ends the handlers' contexts when DrainTimeout is over.
func (r *groupRun) windDown(endHandling context.CancelCauseFunc, handled <-chan struct{}) {
	<-r.draining
	timer := time.NewTimer(r.options.DrainTimeout)
	defer timer.Stop()
	r.settler.submit(releases(r.flight.All())...)
	select {
	case <-handled:
	case <-timer.C:
		endHandling(Errorf(ErrClosed, "the group drains and its DrainTimeout is over"))
	}
}

// open learns the group's ordering, waiting for a store that is away.
func (r *groupRun) open(ctx context.Context) error {
	away := outage{logger: r.logger, operation: "open group"}
	for {
		bounded, cancel := context.WithTimeout(ctx, r.options.SettleTimeout)
		info, err := r.instance.GroupInfo(bounded, r.options.Stream, r.options.Group)
		cancel()
		switch {
		case err == nil:
			away.worked(ctx)
			r.ordered = info.Ordering == OrderingPartition
			return nil
		case fatal(err):
			return err
		case r.isDraining():
			return nil
		}
		if !r.sleep(r.options.StoreBackoff.Delay(away.failed(ctx, err))) {
			return nil
		}
	}
}

// fatal reports whether waiting will not help.
func fatal(err error) bool {
	switch Classify(err) {
	case ReasonStreamNotFound, ReasonGroupNotFound, ReasonInvalid, ReasonClosed, ReasonUnsupported:
		return true
	}
	return false
}

func (r *groupRun) isDraining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

func (r *groupRun) drain(ctx context.Context) error {
	if r.asked.Swap(true) {
		return Errorf(ErrAlreadyDraining, "group %q of stream %q", r.options.Group, r.options.Stream)
	}
	r.beginDrain()
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work handles batches until the queue is closed. Once the group drains, what is
// still queued is given back.
func (r *groupRun) work(handling context.Context) {
	for batch := range r.queue {
		if r.queued.Add(-int64(len(batch))) == 0 {
			r.flight.Nudge()
		}
		r.handleInOrder(handling, batch)
	}
}

func (r *groupRun) handleInOrder(handling context.Context, batch []*delivered) {
	for at, d := range batch {
		if r.isDraining() || d.heldUp() {
			r.settler.submit(releases(batch[at:])...)
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

// releases gives back those that no handler has begun with.
func releases(batch []*delivered) []outcome {
	var outcomes []outcome
	for _, d := range batch {
		if d.giveBack() {
			outcomes = append(outcomes, releaseOf(d))
		}
	}
	return outcomes
}

// handle runs the handler. The settlement counts unless the lease was lost, or
// given back, before the handler began or before it ended.
func (r *groupRun) handle(handling context.Context, d *delivered) (settlement Settlement, counts bool) {
	ctx, ok := d.begin(handling)
	if !ok {
		return Settlement{}, false
	}
	settlement = r.call(ctx, d)
	return settlement, d.end()
}

func (r *groupRun) call(ctx context.Context, d *delivered) (settlement Settlement) {
	defer func() {
		if v := recover(); v != nil {
			err := &panicError{value: v}
			r.logger.LogAttrs(ctx, slog.LevelError, err.Error(),
				slog.String("event", d.held.ID), slog.Int("partition", d.held.Partition),
				slog.Int64("sequence", d.held.Sequence), slog.String("stack", string(debug.Stack())))
			settlement = settlementOf(&d.held, err, r.options.RetryBackoff)
		}
	}()
	return settlementOf(&d.held, r.options.Handler(ctx, &d.delivery), r.options.RetryBackoff)
}
