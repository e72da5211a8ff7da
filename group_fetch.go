package rheo

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// fetchLoop leases and queues until the group drains, or until an error that
// waiting will not mend. ctx does not end with the group: a fetch cut off by a
// shutdown would leave leases that nobody holds until they expire.
func (r *groupRun) fetchLoop(ctx context.Context) error {
	hints, stop := r.watch()
	defer stop()
	away := outage{logger: r.logger, operation: "fetch"}
	for !r.isDraining() {
		demand := r.demand()
		if demand == 0 || r.renewer.isBehind() {
			r.waitForRoom()
			continue
		}
		asked := time.Now()
		leases, err := r.fetch(ctx, demand)
		switch {
		case err == nil && len(leases) > 0:
			away.worked(ctx)
			r.enqueue(ctx, leases)
		case err == nil:
			away.worked(ctx)
			r.waitForWork(hints, asked)
		case fatal(err):
			return err
		default:
			r.sleep(r.options.StoreBackoff.Delay(away.failed(ctx, err)))
		}
	}
	return nil
}

func (r *groupRun) watch() (hints <-chan struct{}, stop func()) {
	if w, ok := r.instance.backend.(Waiter); ok {
		return w.Watch(r.options.Stream)
	}
	return nil, func() {}
}

// demand is how many leases to ask for: none while there is enough to do and
// what could be asked for would make a small batch.
func (r *groupRun) demand() int {
	free := r.flight.Free()
	if r.queued.Load() > 0 && free < (r.options.MaxDemand+1)/2 {
		return 0
	}
	return min(free, MaxBatch)
}

func (r *groupRun) fetch(ctx context.Context, demand int) ([]*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.SettleTimeout)
	defer cancel()
	return r.instance.Fetch(ctx, r.options.Stream, r.options.Group, FetchOptions{
		Max: demand, LeaseDuration: r.options.LeaseDuration,
		Partitions: r.options.Partitions, ConsumerID: r.options.ConsumerID,
	})
}

// enqueue puts leases in flight and on the queue, which has room for all that
// may be in flight. What the store hands out twice the first holder has lost.
func (r *groupRun) enqueue(ctx context.Context, leases []*Lease) {
	all := make([]delivered, len(leases))
	entries := make([]*delivered, len(leases))
	for at, lease := range leases {
		all[at].delivery.Lease, all[at].held = lease, *lease
		entries[at] = &all[at]
	}
	batches, lost := r.batches(entries)
	lost = append(lost, r.flight.Add(entries)...)
	again := Errorf(ErrStaleLease, "the store has handed the delivery out again")
	if r.flight.lose(ctx, lost, slices.Repeat([]error{again}, len(lost))) > 0 {
		signal(r.flight.doubt)
	}
	if r.isDraining() { // since the fetch began: no worker may be free to see to these
		r.settler.submit(releases(entries)...)
		return
	}
	r.queued.Add(int64(len(entries)))
	for _, batch := range batches {
		r.queue <- batch
	}
}

// batches cuts what was fetched into what must be handled in order: each
// partition's part if the group is ordered, else each delivery by itself. An
// ordered partition has one batch in flight at a time, so what is left of the one
// before is lost.
func (r *groupRun) batches(entries []*delivered) (batches [][]*delivered, lost []*delivered) {
	if !r.ordered {
		return slices.Collect(slices.Chunk(entries, 1)), nil
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b *delivered) int { return cmp.Compare(a.held.Partition, b.held.Partition) })
	for start := 0; start < len(entries); {
		partition, end := entries[start].held.Partition, start+1
		for end < len(entries) && entries[end].held.Partition == partition {
			end++
		}
		batch := entries[start:end:end]
		lost = append(lost, r.lanes[partition].left()...)
		r.lanes[partition] = newLane(batch)
		batches = append(batches, batch)
		start = end
	}
	return batches, lost
}

func (r *groupRun) waitForRoom() {
	select {
	case <-r.draining:
	case <-r.flight.Freed():
	case <-r.renewer.caughtUp:
	}
}

// waitForWork waits for a hint, for the next delivery known to become due since
// the store was asked, or for the poll interval.
func (r *groupRun) waitForWork(hints <-chan struct{}, asked time.Time) {
	poll := time.Now().Add(r.options.PollInterval)
	timer := time.NewTimer(r.options.PollInterval)
	defer timer.Stop()
	for {
		until := poll
		if due := r.flight.retries.next(asked); !due.IsZero() {
			until = earlier(poll, due)
		}
		timer.Reset(time.Until(until))
		select {
		case <-r.draining:
			return
		case <-hints:
			return
		case <-r.flight.retries.now:
			return
		case <-timer.C:
			return
		case <-r.flight.retries.changed:
		}
	}
}

// sleep reports false if the group began to drain meanwhile.
func (r *groupRun) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.draining:
		return false
	case <-timer.C:
		return true
	}
}
