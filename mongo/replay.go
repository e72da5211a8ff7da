package mongo

import (
	"context"
	"errors"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Replay implements [rheo.Backend]. It works the whole selection out before it
// stores anything, so that one that is refused in one partition changes none.
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return 0, err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil || len(partitions) == 0 {
		return 0, err
	}
	if err := b.lookAtTails(ctx, g.stream); err != nil {
		return 0, err
	}
	seek := func(ctx context.Context, p int) (int64, error) { return b.seekTime(ctx, g.stream, p, r.FromTime) }
	counts := make(map[int]int64)
	err = b.rewrite(ctx, g, partitions, func(w *swap, l *ledger.Ledger) ([]page, error) {
		p := w.old.Partition
		reopened, err := delivery.Replay(ctx, r, p, l, g.stream.tail(p), seek)
		if err != nil {
			return nil, err
		}
		counts[p] = reopened.Count
		return b.exhume(ctx, w, reopened)
	})
	if err != nil {
		return 0, err
	}
	b.hub(r.Stream).Wake()
	var count int64
	for _, n := range counts {
		count += n
	}
	return count, nil
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return err
	}
	partitions, err := delivery.ResetPartitions(r, g.plan)
	if err != nil {
		return err
	}
	cursors := g.starts
	if r.Start != nil {
		starts, err := b.startCursors(ctx, g.stream, *r.Start, partitions)
		if err != nil {
			return err
		}
		cursors = make(map[int]int64, len(partitions))
		for i, p := range partitions {
			cursors[p] = starts[i]
		}
	}
	err = b.rewrite(ctx, g, partitions, func(w *swap, l *ledger.Ledger) ([]page, error) {
		l.Reset(cursors[w.old.Partition])
		w.new.Dead, w.new.Pages, w.new.Letters = []burial{}, []page{}, 0
		return w.old.Pages, nil
	})
	if err == nil {
		b.hub(r.Stream).Wake()
	}
	return err
}

// rewrite changes the ledgers of the partitions, and their dead letters, and drops
// the pages that are no longer wanted. Those that others have changed meanwhile are
// read and changed again.
func (b *Backend) rewrite(ctx context.Context, g *group, partitions []int, change func(*swap, *ledger.Ledger) (unwanted []page, err error)) error {
	var p patience
	for stored := false; len(partitions) > 0; {
		rows, err := b.ledgersOf(ctx, g, partitions)
		if err != nil {
			return doneBefore(stored, err)
		}
		swaps, unwanted, err := rewriteAll(rows, change)
		switch {
		case errors.Is(err, errPageGone): // what was read is old
		case err != nil:
			return doneBefore(stored, err)
		default:
			if err := b.store(ctx, swaps); err != nil {
				return doneBefore(stored, err)
			}
			partitions = partitions[:0:0]
			for i, w := range swaps {
				if w.won {
					b.dropPages(ctx, unwanted[i])
					stored = true
				} else {
					partitions = append(partitions, w.old.Partition)
				}
			}
		}
		if len(partitions) > 0 {
			if err := p.wait(ctx); err != nil {
				return doneBefore(stored, err)
			}
		}
	}
	return nil
}

func rewriteAll(rows []*row, change func(*swap, *ledger.Ledger) ([]page, error)) (swaps []*swap, unwanted [][]page, err error) {
	for _, r := range rows {
		l, err := r.decode()
		if err != nil {
			return nil, nil, err
		}
		w := &swap{old: r, new: r.next(l)}
		pages, err := change(w, l)
		if err != nil {
			return nil, nil, err
		}
		w.new.put(l)
		swaps, unwanted = append(swaps, w), append(unwanted, pages)
	}
	return swaps, unwanted, nil
}
