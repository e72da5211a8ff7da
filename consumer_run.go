package rheo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// consumer is one run of a [Group] or a [Producer]: all that they share, which is
// everything but how leases reach the host. Its goroutines: the fetch loop, which
// is Run's own; the settler; the renewer; and one that waits for the drain to
// begin.
type consumer struct {
	instance *Instance
	options  consumerOptions
	ordered  bool
	report   *reporter

	flight  *flight
	settler *settler
	renewer *renewer
	lanes   map[int]*lane // the fetch loop's: the last of each partition, if order matters

	draining   <-chan struct{} // closed when the drain begins
	beginDrain func()
	drained    chan struct{} // closed when nothing is in flight any more
	asked      atomic.Bool   // Drain has been called
	failure    atomic.Pointer[error]
}

// work is how leases reach the host, and what is made of them.
type work interface {
	// start is called once, before the first fetch. ctx does not end with the run.
	start(ctx context.Context)
	// demand is how many leases to ask for, if any.
	demand() int
	// accept is given what has been fetched, in parts that must be handled in
	// order. It is already in flight.
	accept(parts [][]*delivered)
	// finish is called when nothing is fetched any more, and returns when nothing
	// is handled any more.
	finish()
	// expire ends the contexts of what is still handled when DrainTimeout is over.
	// finished is closed when finish has returned.
	expire(cause error, finished <-chan struct{})
}

// newConsumer makes a run that drains once draining is closed, which beginDrain
// does.
func newConsumer(i *Instance, kind RuntimeKind, o consumerOptions, draining <-chan struct{}, beginDrain func()) *consumer {
	report := newReporter(i, kind, &o)
	f := newFlight(o.MaxDemand, report)
	return &consumer{
		instance: i, options: o, report: report,
		flight:   f,
		settler:  newSettler(i, f, o.SettleTimeout),
		renewer:  newRenewer(i, f, &o),
		lanes:    make(map[int]*lane),
		draining: draining, beginDrain: beginDrain,
		drained: make(chan struct{}),
	}
}

// run starts everything, fetches, and takes everything down in the order in
// which each part needs the next. The drain begins when ctx ends.
func (c *consumer) run(ctx context.Context, w work) (failed error) {
	detached := context.WithoutCancel(ctx)
	c.report.observe(detached, RuntimeStarted, nil)
	defer func() {
		c.report.observe(detached, RuntimeStopped, func(e *RuntimeEvent) { e.Err = failed })
		close(c.drained)
	}()
	stop := c.maintain(detached)
	defer stop()
	if err := c.open(ctx); err != nil || c.isDraining() {
		c.end(err)
		c.report.observe(detached, RuntimeDraining, nil)
		return err
	}
	w.start(detached)
	finished := make(chan struct{})
	var winding sync.WaitGroup
	winding.Go(func() { c.windDown(detached, w, finished) })

	err := c.fetchLoop(detached, w)
	c.end(err)
	w.finish()
	close(finished)
	winding.Wait()
	return err
}

// maintain starts what settles and renews. stop waits until all is settled.
func (c *consumer) maintain(ctx context.Context) (stop func()) {
	renewing, stopRenewing := context.WithCancel(ctx)
	var settling, renewals sync.WaitGroup
	settling.Go(func() { c.settler.run(ctx) })
	renewals.Go(func() { c.renewer.run(renewing) })
	return func() {
		c.settler.close()
		settling.Wait()
		stopRenewing()
		renewals.Wait()
	}
}

// end begins the drain, if it has not begun, and keeps the error that is its cause.
func (c *consumer) end(err error) {
	if err != nil {
		c.failure.Store(&err)
	}
	c.beginDrain()
}

// windDown waits for the drain to begin, and then does what can wait neither for
// a fetch under way nor for who handles: it gives back what nobody has begun with,
// and ends the contexts of the rest when DrainTimeout is over.
func (c *consumer) windDown(ctx context.Context, w work, finished <-chan struct{}) {
	<-c.draining
	c.report.observe(ctx, RuntimeDraining, nil)
	timer := time.NewTimer(c.options.DrainTimeout)
	defer timer.Stop()
	c.settler.submit(releases(c.flight.All())...)
	select {
	case <-finished:
	case <-timer.C:
		w.expire(Errorf(ErrClosed, "the runtime drains and its DrainTimeout is over"), finished)
	}
}

// open learns the group's ordering, waiting for a store that is away.
func (c *consumer) open(ctx context.Context) error {
	away := outage{report: c.report, operation: OperationGroup}
	for {
		bounded, cancel := context.WithTimeout(ctx, c.options.SettleTimeout)
		info, err := c.instance.GroupInfo(bounded, c.options.Stream, c.options.Group)
		cancel()
		switch {
		case err == nil:
			away.worked(ctx)
			c.ordered = info.Ordering == OrderingPartition
			c.report.maxAttempts.Store(int64(info.MaxAttempts))
			return nil
		case fatal(err):
			return err
		case c.isDraining():
			return nil
		}
		if !c.sleep(c.options.StoreBackoff.Delay(away.failed(ctx, err))) {
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

func (c *consumer) isDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

func (c *consumer) drain(ctx context.Context) error {
	if c.asked.Swap(true) {
		return Errorf(ErrAlreadyDraining, "group %q of stream %q", c.options.Group, c.options.Stream)
	}
	c.beginDrain()
	select {
	case <-c.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releases gives back those that nobody has begun with.
func releases(batch []*delivered) []outcome {
	var outcomes []outcome
	for _, d := range batch {
		if d.giveBack() {
			outcomes = append(outcomes, releaseOf(d))
		}
	}
	return outcomes
}
