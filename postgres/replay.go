package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

var (
	ledgerExhume = load("ledger_exhume")
	ledgerStarts = load("ledger_starts")
)

// Replay implements [rheo.Backend]. It is one transaction: a selection that is
// refused in one partition changes none.
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil || len(partitions) == 0 {
		return 0, err
	}
	var count int64
	err = b.rewrite(ctx, g, partitions, func(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, rows []row) ([]swap, error) {
		count = 0
		return b.replayRows(ctx, g, r, rows, conn, batch, &count)
	})
	if err != nil {
		return 0, err
	}
	b.wake(r.Stream)
	return count, nil
}

func (b *Backend) replayRows(ctx context.Context, g *group, r rheo.ReplayRequest, rows []row, conn *pgx.Conn, batch *pgx.Batch, count *int64) ([]swap, error) {
	swaps := make([]swap, 0, len(rows)) // each is pointed to
	for _, row := range rows {
		l, err := decode(row.ledger)
		if err != nil {
			return nil, err
		}
		reopened, err := delivery.Replay(ctx, r, row.partition, l, row.high, func(ctx context.Context, p int) (int64, error) {
			first := row.high + 1
			err := seekRow(&first)(conn.QueryRow(ctx, b.text(seekStatement), g.stream.id, p, r.FromTime))
			return first, err
		})
		if err != nil {
			return nil, err
		}
		*count += reopened.Count
		swaps = append(swaps, swap{partition: row.partition, old: row.version, new: newVersion(), ledger: l})
		b.queueSwap(batch, ledgerSwap, g, &swaps[len(swaps)-1])
		batch.Queue(b.text(ledgerExhume), g.id, row.partition, reopened.From, reopened.Sequences)
	}
	return swaps, nil
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
	var cursors map[int]int64
	if r.Start != nil {
		if cursors, err = b.startCursors(ctx, g.stream, *r.Start, partitions); err != nil {
			return err
		}
	}
	err = b.rewrite(ctx, g, partitions, func(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, rows []row) ([]swap, error) {
		if cursors == nil {
			if cursors, err = b.createdCursors(ctx, conn, g, partitions); err != nil {
				return nil, err
			}
		}
		swaps := make([]swap, 0, len(rows)) // each is pointed to
		for _, row := range rows {
			swaps = append(swaps, swap{partition: row.partition, old: row.version, new: newVersion(), ledger: ledger.New(cursors[row.partition])})
			b.queueSwap(batch, ledgerSwap, g, &swaps[len(swaps)-1])
			batch.Queue(b.text(ledgerExhume), g.id, row.partition, int64(1), []int64(nil))
		}
		return swaps, nil
	})
	if err == nil {
		b.wake(r.Stream)
	}
	return err
}

// createdCursors returns where the group was created to start.
func (b *Backend) createdCursors(ctx context.Context, conn *pgx.Conn, g *group, partitions []int) (map[int]int64, error) {
	rows, err := conn.Query(ctx, b.text(ledgerStarts), g.id, partitions)
	if err != nil {
		return nil, err
	}
	starts := make(map[int32]int64)
	if err := intoMap(starts)(rows); err != nil {
		return nil, err
	}
	cursors := make(map[int]int64, len(starts))
	for p, start := range starts {
		cursors[int(p)] = start
	}
	return cursors, nil
}

// rewrite changes the ledgers of the partitions, which ascend, under their
// locks, and remembers what they came to be.
func (b *Backend) rewrite(ctx context.Context, g *group, partitions []int,
	change func(context.Context, *pgx.Conn, *pgx.Batch, []row) ([]swap, error),
) error {
	release, err := g.ownAll(ctx, partitions)
	if err != nil {
		return err
	}
	defer release()
	for _, p := range partitions {
		b.forget(g.entries[p])
	}
	var rows []row
	var swaps []swap
	err = b.transact(ctx, func(batch *pgx.Batch) {
		batch.Queue(b.text(ledgerLock), g.stream.id, g.id, partitions).Query(intoRows(&rows))
	}, func(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) (err error) {
		if len(rows) < len(partitions) {
			return b.groupGone(g)
		}
		swaps, err = change(ctx, conn, batch, rows)
		return err
	})
	if err != nil {
		return err
	}
	for i := range swaps {
		b.keep(g, g.entries[swaps[i].partition], swaps[i].ledger, swaps[i].new)
	}
	return nil
}
