package rheo

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// fetchLoop leases and hands on until the run drains, or until an error that
// waiting will not mend. ctx does not end with the run: a fetch cut off by a
// shutdown would leave leases that nobody holds until they expire.
func (c *consumer) fetchLoop(ctx context.Context, w work) error {
	hints, stop := c.watch()
	defer stop()
	away := outage{report: c.report, operation: OperationFetch}
	for !c.isDraining() {
		demand := w.demand()
		if demand == 0 || c.renewer.isBehind() {
			c.waitForRoom()
			continue
		}
		asked := time.Now()
		leases, err := c.fetch(ctx, demand)
		switch {
		case err == nil && len(leases) > 0:
			away.worked(ctx)
			c.admit(ctx, leases, w)
		case err == nil:
			away.worked(ctx)
			wake := c.waitForWork(hints, asked)
			if wake != "" {
				c.report.observe(ctx, RuntimeWoken, func(e *RuntimeEvent) { e.Wake = wake })
			}
		case fatal(err):
			return err
		default:
			c.sleep(c.options.StoreBackoff.Delay(away.failed(ctx, err)))
		}
	}
	return nil
}

func (c *consumer) watch() (hints <-chan struct{}, stop func()) {
	if w, ok := c.instance.given.(Waiter); ok {
		return w.Watch(c.options.Stream)
	}
	return nil, func() {}
}

func (c *consumer) fetch(ctx context.Context, demand int) ([]*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.SettleTimeout)
	defer cancel()
	return c.instance.Fetch(ctx, c.options.Stream, c.options.Group, FetchOptions{
		Max: demand, LeaseDuration: c.options.LeaseDuration,
		Partitions: c.options.Partitions, ConsumerID: c.options.ConsumerID,
	})
}

// admit puts leases in flight and hands them on. What the store hands out twice
// the first holder has lost.
func (c *consumer) admit(ctx context.Context, leases []*Lease, w work) {
	all := make([]delivered, len(leases))
	entries := make([]*delivered, len(leases))
	for at, lease := range leases {
		all[at].delivery, all[at].held = Delivery{Lease: lease, of: &all[at]}, *lease
		entries[at] = &all[at]
	}
	parts, lost := c.parts(entries)
	lost = append(lost, c.flight.Add(entries)...)
	again := Errorf(ErrStaleLease, "the store has handed the delivery out again")
	if c.flight.lose(ctx, lost, slices.Repeat([]error{again}, len(lost))) > 0 {
		signal(c.flight.doubt)
	}
	if c.isDraining() { // since the fetch began: nobody may be free to see to these
		c.settler.submit(releases(entries)...)
		return
	}
	w.accept(parts)
}

// parts cuts what was fetched into what must be handled in order: each
// partition's part if the group is ordered, else each delivery by itself. An
// ordered partition has one batch in flight at a time, so what is left of the one
// before is lost.
func (c *consumer) parts(entries []*delivered) (parts [][]*delivered, lost []*delivered) {
	if !c.ordered {
		return slices.Collect(slices.Chunk(entries, 1)), nil
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b *delivered) int { return cmp.Compare(a.held.Partition, b.held.Partition) })
	for start := 0; start < len(entries); {
		partition, end := entries[start].held.Partition, start+1
		for end < len(entries) && entries[end].held.Partition == partition {
			end++
		}
		part := entries[start:end:end]
		lost = append(lost, c.lanes[partition].left()...)
		c.lanes[partition] = newLane(part)
		parts = append(parts, part)
		start = end
	}
	return parts, lost
}

func (c *consumer) waitForRoom() {
	select {
	case <-c.draining:
	case <-c.flight.Freed():
	case <-c.renewer.caughtUp:
	}
}

// waitForWork waits for a hint, for the next delivery known to become due since
// the store was asked, or for the poll interval. It returns nothing if the run
// drains.
func (c *consumer) waitForWork(hints <-chan struct{}, asked time.Time) Wake {
	poll := time.Now().Add(c.options.PollInterval)
	timer := time.NewTimer(c.options.PollInterval)
	defer timer.Stop()
	for {
		until := poll
		if due := c.flight.retries.next(asked); !due.IsZero() {
			until = earlier(poll, due)
		}
		timer.Reset(time.Until(until))
		select {
		case <-c.draining:
			return ""
		case <-hints:
			return WakeHint
		case <-c.flight.retries.now:
			return WakeRetry
		case <-timer.C:
			if until.Before(poll) {
				return WakeRetry
			}
			return WakePoll
		case <-c.flight.retries.changed:
		}
	}
}

// sleep reports false if the run began to drain meanwhile.
func (c *consumer) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.draining:
		return false
	case <-timer.C:
		return true
	}
}
