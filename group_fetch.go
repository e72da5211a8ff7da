package rheo

import (
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
		if demand == 0 {
			r.waitForRoom()
			continue
		}
		leases, err := r.fetch(ctx, demand)
		switch {
		case err == nil && len(leases) > 0:
			away.worked(ctx)
			r.enqueue(leases)
		case err == nil:
			away.worked(ctx)
			r.waitForWork(hints)
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
// may be in flight.
func (r *groupRun) enqueue(leases []*Lease) {
	all := make([]delivered, len(leases))
	entries := make([]*delivered, len(leases))
	for at, lease := range leases {
		all[at].delivery.Lease = lease
		entries[at] = &all[at]
	}
	r.flight.Add(entries, (*delivered).leaseID)
	r.queued.Add(int64(len(entries)))
	for _, batch := range r.batches(entries) {
		r.queue <- batch
	}
}

// batches cuts what was fetched into what must be handled in order: each
// partition's part if the group is ordered, else each delivery by itself.
func (r *groupRun) batches(entries []*delivered) [][]*delivered {
	if !r.ordered {
		return slices.Collect(slices.Chunk(entries, 1))
	}
	var batches [][]*delivered
	for start := 0; start < len(entries); {
		end := start + 1
		for end < len(entries) && entries[end].delivery.Partition == entries[start].delivery.Partition {
			end++
		}
		batch := entries[start:end]
		order := &lane{}
		for _, d := range batch {
			d.lane = order
		}
		batches = append(batches, batch)
		start = end
	}
	return batches
}

func (r *groupRun) waitForRoom() {
	select {
	case <-r.draining:
	case <-r.flight.Freed():
	}
}

// waitForWork waits for a hint, for the next delivery known to become due, or for
// the poll interval.
func (r *groupRun) waitForWork(hints <-chan struct{}) {
	poll := time.Now().Add(r.options.PollInterval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		until := poll
		if due := r.retries.next(now); !due.IsZero() && due.Before(poll) {
			until = due
		}
		timer.Reset(until.Sub(now))
		select {
		case <-r.draining:
			return
		case <-hints:
			return
		case <-timer.C:
			return
		case <-r.retries.changed:
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
