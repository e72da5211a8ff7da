package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo/ledger"
)

var (
	quietStatement = load("quiet")
	ledgerLock     = load("ledger_lock")
	ledgerSwap     = load("ledger_swap")
	ledgerSwapFree = load("ledger_swap_free")
	ledgerBury     = load("ledger_bury")
)

// change is what a settle or a renewal does to a group's ledgers.
type change struct {
	group      *group
	partitions []int // ascending
	apply      func(partition int, l *ledger.Ledger) (dead []ledger.Dead, changed bool)
	// sure reports whether what apply found holds whatever others may have done
	// since the ledger was read: whether no lease turned out to be lost.
	sure func() bool
	// quiet changes need not be flushed to disk: what a crash takes back is
	// delivered again.
	quiet bool
}

// swap is a ledger that takes the place of the version it was made from.
type swap struct {
	partition int
	old, new  int64
	ledger    *ledger.Ledger
	dead      []ledger.Dead
	won       bool
}

// perform does the change: in one round trip if the ledgers are as this process
// remembers them, else under their locks.
func (b *Backend) perform(ctx context.Context, c change) error {
	if len(c.partitions) == 0 {
		return nil
	}
	if hostTx(ctx) != nil {
		return b.performIn(ctx, c)
	}
	release, err := c.group.ownAll(ctx, c.partitions)
	if err != nil {
		return err
	}
	defer release()
	lost := c.partitions
	if swaps, ok := c.remembered(); ok {
		if err := b.swapAll(ctx, c.group, swaps, c.quiet); err != nil {
			return err
		}
		lost = nil
		for i := range swaps {
			if !swaps[i].won {
				lost = append(lost, swaps[i].partition)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return b.makeLocked(ctx, c, lost)
}

// remembered applies the change to the ledgers as they are remembered.
func (c *change) remembered() (swaps []swap, ok bool) {
	for _, p := range c.partitions {
		if c.group.entries[p].ledger == nil {
			return nil, false
		}
	}
	touched := false
	for _, p := range c.partitions {
		e := c.group.entries[p]
		dead, changed := c.apply(p, e.ledger)
		touched = touched || changed
		if changed {
			swaps = append(swaps, swap{partition: p, old: e.version, new: newVersion(), ledger: e.ledger, dead: dead})
		}
	}
	return swaps, touched && c.sure()
}

// swapAll stores the ledgers whose rows are still what they were made from.
func (b *Backend) swapAll(ctx context.Context, g *group, swaps []swap, quiet bool) error {
	err := b.trip(ctx, writing, func(batch *pgx.Batch) {
		if quiet {
			batch.Queue(b.text(quietStatement), true)
		}
		for i := range swaps {
			b.queueSwap(batch, ledgerSwap, g, &swaps[i])
		}
	})
	for i := range swaps {
		e := g.entries[swaps[i].partition]
		if err != nil || !swaps[i].won {
			b.forget(e)
		} else {
			b.keep(g, e, swaps[i].ledger, swaps[i].new)
		}
	}
	return err
}

// queueSwap asks for one, with the dead letters that go with it.
func (b *Backend) queueSwap(batch *pgx.Batch, s statement, g *group, w *swap) {
	encoded, _ := w.ledger.MarshalBinary() // it never fails
	held := int64(math.MinInt64)
	if g.plan.Ordered {
		held = w.ledger.Held()
	}
	batch.Queue(b.text(s), g.id, w.partition, w.old, w.new,
		w.ledger.Cursor(), w.ledger.Frontier(), w.ledger.Due(), held, encoded).Query(func(rows pgx.Rows) error {
		w.won = rows.Next()
		rows.Close()
		return rows.Err()
	})
	if len(w.dead) > 0 {
		b.queueBurial(batch, g, w)
	}
}

func (b *Backend) queueBurial(batch *pgx.Batch, g *group, w *swap) {
	n := len(w.dead)
	low, high, attempts, reasons := make([]int64, n), make([]int64, n), make([]int32, n), make([]string, n)
	for i, d := range w.dead {
		low[i], high[i], attempts[i], reasons[i] = d.From, d.To, int32(d.Attempts), d.Reason
	}
	batch.Queue(b.text(ledgerBury), g.id, w.partition, w.new, b.clock.parameter(), low, high, attempts, reasons)
}

// makeLocked does the change under the locks of the ledgers' rows. The caller
// owns their entries.
func (b *Backend) makeLocked(ctx context.Context, c change, partitions []int) error {
	for _, p := range partitions {
		b.forget(c.group.entries[p])
	}
	var rows []row
	var swaps []swap
	err := b.transact(ctx, func(batch *pgx.Batch) {
		if c.quiet {
			batch.Queue(b.text(quietStatement), true)
		}
		batch.Queue(b.text(ledgerLock), c.group.stream.id, c.group.id, partitions).Query(intoRows(&rows))
	}, func(_ context.Context, _ *pgx.Conn, batch *pgx.Batch) (err error) {
		if len(rows) < len(partitions) {
			return b.groupGone(c.group)
		}
		swaps, err = c.applyTo(rows)
		for i := range swaps {
			b.queueSwap(batch, ledgerSwap, c.group, &swaps[i])
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range swaps {
		b.keep(c.group, c.group.entries[swaps[i].partition], swaps[i].ledger, swaps[i].new)
	}
	return nil
}

// applyTo applies the change to ledgers as their rows are, which are locked.
func (c *change) applyTo(rows []row) (swaps []swap, err error) {
	for _, r := range rows {
		l, err := decode(r.ledger)
		if err != nil {
			return nil, err
		}
		if dead, changed := c.apply(r.partition, l); changed {
			swaps = append(swaps, swap{partition: r.partition, old: r.version, new: newVersion(), ledger: l, dead: dead})
		}
	}
	return swaps, nil
}

// row is a ledger's row.
type row struct {
	partition     int
	version, high int64
	ledger        []byte
}

func intoRows(into *[]row) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*into = nil
		var r row
		_, err := pgx.ForEachRow(rows, []any{&r.partition, &r.version, &r.high, &r.ledger}, func() error {
			*into = append(*into, r)
			r.ledger = nil
			return nil
		})
		return err
	}
}
