package embedded

import (
	"context"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Replay implements [rheo.Backend]. It works on copies, so that a selection
// refused in one partition changes none.
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	if err := b.enter(ctx); err != nil {
		return 0, err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil || len(partitions) == 0 {
		return 0, err
	}
	firsts := make(map[int]int64) // by time: found before the committer is kept busy
	if !r.FromTime.IsZero() {
		for _, p := range partitions {
			if firsts[p], err = g.stream.partitions[p].seekTime(ctx, b.db, r.FromTime); err != nil {
				return 0, err
			}
		}
	}
	seek := func(_ context.Context, p int) (int64, error) { return firsts[p], nil } //nolint:unparam // it is a delivery.SeekTime
	reopened := make([]delivery.Reopened, len(partitions))
	err = b.committer.do(ctx, 0, func(bt *batch) error {
		return bt.replace(g, partitions, func(i int, l *ledger.Ledger) (delivery.Reopened, error) {
			var err error
			high := g.stream.partitions[partitions[i]].high.Load()
			reopened[i], err = delivery.Replay(ctx, r, partitions[i], l, high, seek)
			return reopened[i], err
		})
	})
	if err != nil {
		return 0, err
	}
	var count int64
	for i := range reopened {
		count += reopened[i].Count
	}
	return count, nil
}

// replace changes copies of the ledgers and, if all of that goes well, puts them in
// the ledgers' place, with the dead letters of what was opened gone. Nobody builds
// on the new ledgers before they are durable.
func (bt *batch) replace(g *group, partitions []int, change func(i int, l *ledger.Ledger) (delivery.Reopened, error)) error {
	ledgers := make([]*ledger.Ledger, len(partitions))
	reopened := make([]delivery.Reopened, len(partitions))
	for i, p := range partitions {
		c := bt.changeOf(g.progress[p])
		c.pr.mu.Lock()
		c.open(true)
		ledgers[i] = c.pr.ledger.Clone()
		c.pr.mu.Unlock()
		var err error
		if reopened[i], err = change(i, ledgers[i]); err != nil {
			return err
		}
	}
	for i, p := range partitions {
		c := bt.changeOf(g.progress[p])
		c.pr.mu.Lock()
		c.pr.ledger = ledgers[i]
		c.changed()
		c.pr.mu.Unlock()
		if err := bt.exhume(c, reopened[i]); err != nil {
			return bt.abort(err)
		}
	}
	bt.wake(g.stream)
	return nil
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return err
	}
	partitions, err := delivery.ResetPartitions(r, g.plan)
	if err != nil {
		return err
	}
	cursors := make([]int64, len(partitions))
	for i, p := range partitions {
		cursors[i] = g.progress[p].start
		if r.Start != nil {
			if cursors[i], err = b.startCursor(ctx, g.stream.partitions[p], *r.Start); err != nil {
				return err
			}
		}
	}
	return b.committer.do(ctx, 0, func(bt *batch) error {
		return bt.replace(g, partitions, func(i int, l *ledger.Ledger) (delivery.Reopened, error) {
			const everything = 1
			l.Reset(cursors[i])
			return delivery.Reopened{From: everything}, nil
		})
	})
}
