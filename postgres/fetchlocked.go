package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

var (
	fetchFree = load("fetch_locked")
	fetchWait = load("fetch_wait")
)

// lockWidth is how many ledgers a fetch that takes locks takes at most: what it
// has, others pass by.
const lockWidth = 8

// fetchLocked is a fetch among others that compete for the same ledgers. It takes
// those that nobody holds; if there are none, it waits for one.
func (b *Backend) fetchLocked(ctx context.Context, g *group, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	start := g.start(g.turn.Load())
	leases, err := b.fetchUnder(ctx, g, r, func(batch *pgx.Batch, into func(pgx.Rows) error) {
		batch.Queue(b.text(fetchFree), g.stream.id, g.id, b.clock.parameter(), partitionsOf(r.Partitions), start, lockWidth).Query(into)
	})
	if err != nil || len(leases) > 0 {
		return leases, err
	}
	return b.fetchUnder(ctx, g, r, func(batch *pgx.Batch, into func(pgx.Rows) error) {
		batch.Queue(b.text(fetchWait), g.stream.id, g.id, b.clock.parameter(), partitionsOf(r.Partitions), 1).Query(into)
	})
}

// fetchUnder fetches on the ledgers that lock asks for and locks.
func (b *Backend) fetchUnder(ctx context.Context, g *group, r rheo.FetchRequest, lock func(*pgx.Batch, func(pgx.Rows) error)) ([]*rheo.Lease, error) {
	var rows []row
	var takes []take
	var fetch *delivery.Fetch
	var now time.Time
	err := b.transact(ctx, func(batch *pgx.Batch) {
		takes = nil
		lock(batch, intoRows(&rows))
		sent := time.Now()
		batch.Queue(b.text(fetchLook), g.id, g.name, b.clock.parameter()).QueryRow(func(row pgx.Row) error {
			var micros int64
			err := row.Scan(nil, &micros, nil)
			if err == nil {
				now = b.clock.note(sent, micros)
			}
			return err
		})
	}, func(_ context.Context, _ *pgx.Conn, batch *pgx.Batch) (err error) {
		if fetch, err = delivery.NewFetch(r, g.plan, now); err != nil {
			return err
		}
		if takes, err = claimRows(fetch, rows); err != nil {
			return err
		}
		quiet := true
		for i := range takes {
			quiet = quiet && len(takes[i].dead) == 0
		}
		if len(takes) > 0 {
			batch.Queue(b.text(quietStatement), quiet)
		}
		for i := range takes {
			b.queueSwap(batch, ledgerSwap, g, &takes[i].swap)
			b.queueEvents(batch, g.stream, &takes[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range takes {
		// Who owns the entry may be waiting for what was locked here: not to be
		// waited for in turn.
		if e := g.entries[takes[i].partition]; e.own.tryEnter() {
			b.keep(g, e, takes[i].ledger, takes[i].new)
			e.own.leave()
		}
	}
	return leasesOf(fetch, takes)
}

func claimRows(fetch *delivery.Fetch, rows []row) (takes []take, err error) {
	for _, r := range rows {
		l, err := decode(r.ledger)
		if err != nil {
			return nil, err
		}
		takes = appendTake(takes, fetch, swap{partition: r.partition, old: r.version, new: newVersion(), ledger: l}, r.high)
		if fetch.Done() {
			break
		}
	}
	return takes, nil
}
