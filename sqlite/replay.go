package sqlite

import (
	"context"
	"database/sql"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Replay implements [rheo.Backend].
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil {
		return 0, err
	}
	var count int64
	err = b.writer.do(ctx, func(ctx context.Context, tx *transaction) error {
		count = 0
		reopened, err := g.reopen(ctx, tx, r, partitions)
		if err != nil {
			return err
		}
		for i, p := range partitions {
			if err := reopened[i].store(ctx, tx, g, p); err != nil {
				return err
			}
			count += reopened[i].Count
		}
		b.signal(tx, g.stream)
		return nil
	})
	return count, err
}

// replayed is what a replay makes of a ledger.
type replayed struct {
	delivery.Reopened
	held *heldLedger
	then *ledger.Ledger
}

// reopen works on copies, so that a selection refused in one partition changes
// none.
func (g *group) reopen(ctx context.Context, tx *transaction, r rheo.ReplayRequest, partitions []int) ([]replayed, error) {
	all := make([]replayed, len(partitions))
	seek := g.stream.seek(tx, r.FromTime)
	for i, p := range partitions {
		h, err := tx.ledger(ctx, g, p)
		if err != nil {
			return nil, err
		}
		mark, err := tx.high(ctx, g.stream.log(p))
		if err != nil {
			return nil, err
		}
		all[i].held, all[i].then = h, h.Clone()
		if all[i].Reopened, err = delivery.Replay(ctx, r, p, all[i].then, mark.high, seek); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// store also deletes the dead letters of what was opened.
func (r *replayed) store(ctx context.Context, tx *transaction, g *group, partition int) error {
	r.held.Ledger = r.then
	tx.change(r.held)
	if r.From > 0 {
		return exhume(ctx, tx, g, partition, r.From, maxSequence)
	}
	for _, sequence := range r.Sequences {
		if err := exhume(ctx, tx, g, partition, sequence, sequence); err != nil {
			return err
		}
	}
	return nil
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return err
	}
	partitions, err := delivery.ResetPartitions(r, g.plan)
	if err != nil {
		return err
	}
	return b.writer.do(ctx, func(ctx context.Context, tx *transaction) error {
		cursors, err := g.resetCursors(ctx, tx, r.Start, partitions)
		if err != nil {
			return err
		}
		for i, p := range partitions {
			if err := g.reset(ctx, tx, p, cursors[i]); err != nil {
				return err
			}
		}
		b.signal(tx, g.stream)
		return nil
	})
}

// resetCursors returns where each partition begins anew: at start, or where the
// group was created to.
func (g *group) resetCursors(ctx context.Context, tx *transaction, start *rheo.Start, partitions []int) ([]int64, error) {
	if start != nil {
		return g.stream.startCursors(ctx, tx, *start, partitions)
	}
	starts := make(map[int]int64, len(g.config.Partitions))
	err := tx.each(ctx, "starts", func(rows *sql.Rows) error {
		var p int
		var cursor int64
		err := rows.Scan(&p, &cursor)
		starts[p] = cursor
		return err
	}, g.id)
	cursors := make([]int64, len(partitions))
	for i, p := range partitions {
		cursors[i] = starts[p]
	}
	return cursors, err
}

// reset does not read the ledger: it may be what cannot be read any more.
func (g *group) reset(ctx context.Context, tx *transaction, partition int, cursor int64) error {
	key := ledgerKey{g.id, partition}
	tx.cache.take(key)
	h := &heldLedger{Ledger: ledger.New(cursor)}
	tx.ledgers[key] = h
	tx.change(h)
	return exhume(ctx, tx, g, partition, 0, maxSequence)
}
