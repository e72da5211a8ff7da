package rheo

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo/internal/inflight"
)

// groupRun is one run of a [Group]. Its goroutines: the fetch loop, which is
// Run's own; Concurrency workers; the settler; the renewer.
type groupRun struct {
	instance *Instance
	options  GroupOptions
	ordered  bool
	logger   *slog.Logger

	flight  *inflight.Set[*delivered]
	retries *retries
	settler *settler
	renewer *renewer

	queue  chan []*delivered // batches to handle in order; of one if order does not matter
	queued atomic.Int64      // deliveries in the queue
	busy   sync.WaitGroup    // the workers

	drainOnce sync.Once
	draining  chan struct{} // closed when it begins
	drained   chan struct{} // closed when nothing is in flight any more
	asked     atomic.Bool   // Drain has been called
}

func newGroupRun(i *Instance, o GroupOptions) *groupRun {
	r := &groupRun{
		instance: i,
		options:  o,
		logger:   o.Logger.With("stream", o.Stream, "group", o.Group, "consumer", o.ConsumerID),
		flight:   newFlight(o.MaxDemand),
		retries:  newRetries(),
		queue:    make(chan []*delivered, o.MaxDemand),
		draining: make(chan struct{}),
		drained:  make(chan struct{}),
	}
	r.settler = newSettler(i, r.flight, r.retries, o.SettleTimeout, r.logger)
	r.renewer = &renewer{
		instance: i, flight: r.flight, duration: o.LeaseDuration,
		timeout: o.SettleTimeout, backoff: o.StoreBackoff, logger: r.logger,
	}
	return r
}

// run starts everything, fetches, and takes everything down in the order in
// which each part needs the next.
func (r *groupRun) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.beginDrain)
	defer stop()
	detached := context.WithoutCancel(ctx)
	if err := r.open(detached); err != nil || r.isDraining() {
		close(r.drained)
		return err
	}
	handling, endHandling := context.WithCancelCause(detached)
	defer endHandling(nil)
	renewing, stopRenewing := context.WithCancel(detached)
	var settling, renewals sync.WaitGroup
	settling.Go(func() { r.settler.run(detached) })
	renewals.Go(func() { r.renewer.run(renewing) })
	for range r.options.Concurrency {
		r.busy.Go(func() { r.work(handling) })
	}

	err := r.fetchLoop(detached)
	r.beginDrain()
	overdue := time.AfterFunc(r.options.DrainTimeout, func() {
		endHandling(Errorf(ErrClosed, "the group drains and its DrainTimeout is over"))
	})
	close(r.queue)
	r.busy.Wait()
	overdue.Stop()
	r.settler.close()
	settling.Wait()
	stopRenewing()
	renewals.Wait()
	close(r.drained)
	return err
}

// open learns the group's ordering, waiting for a store that is away.
func (r *groupRun) open(ctx context.Context) error {
	away := outage{logger: r.logger, operation: "open group"}
	for {
		bounded, cancel := context.WithTimeout(ctx, r.options.SettleTimeout)
		info, err := r.instance.GroupInfo(bounded, r.options.Stream, r.options.Group)
		cancel()
		if err == nil {
			away.worked(ctx)
			r.ordered = info.Ordering == OrderingPartition
			return nil
		}
		if fatal(err) {
			return err
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

func (r *groupRun) beginDrain() { r.drainOnce.Do(func() { close(r.draining) }) }

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
		if r.isDraining() || d.lane.isBroken() {
			r.settler.submit(r.releases(batch[at:])...)
			return
		}
		settlement, held := r.handle(handling, d)
		if !held {
			d.lane.breakOff()
			continue
		}
		outcomes := []outcome{{d, settlement}}
		if d.lane != nil && (settlement.Outcome == OutcomeNack || settlement.Outcome == OutcomeRelease) {
			d.lane.breakOff()
			r.settler.submit(append(outcomes, r.releases(batch[at+1:])...)...)
			return
		}
		r.settler.submit(outcomes...)
	}
}

func (r *groupRun) releases(batch []*delivered) []outcome {
	outcomes := make([]outcome, len(batch))
	for at, d := range batch {
		outcomes[at] = outcome{d, Settlement{Lease: d.delivery.Lease, Outcome: OutcomeRelease}}
	}
	return outcomes
}

// handle runs the handler. held is false if the lease was lost before it began
// or before it ended: then there is nothing to settle.
func (r *groupRun) handle(handling context.Context, d *delivered) (settlement Settlement, held bool) {
	ctx, ok := d.begin(handling)
	if !ok {
		return Settlement{}, false
	}
	err := r.call(ctx, &d.delivery)
	if !d.end() {
		return Settlement{}, false
	}
	return settlementOf(d.delivery.Lease, err, r.options.RetryBackoff), true
}

func (r *groupRun) call(ctx context.Context, d *Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &panicError{value: v, stack: debug.Stack()}
			r.logger.LogAttrs(ctx, slog.LevelError, "handler panicked",
				slog.String("event", d.ID), slog.Int("partition", d.Partition), slog.Int64("sequence", d.Sequence),
				slog.Any("panic", v), slog.String("stack", string(p.stack)))
			err = p
		}
	}()
	return r.options.Handler(ctx, d)
}
