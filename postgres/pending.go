package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

var pendingPlace = load("pending_place")

// place gives the events that committed transactions of the host have put aside
// for the stream their sequences. The server does it in one step, and any
// process may: whoever gets a partition's lock first. To the caller that is part of
// reading: what it moves was in the log before, as anyone who looks can tell.
func (b *Backend) place(ctx context.Context, stream int64) error {
	const most = 1000 // steps; each moves up to a thousand events of a partition
	for range most {
		var more bool
		err := b.trip(ctx, reading, func(batch *pgx.Batch) {
			batch.Queue(b.text(pendingPlace), stream).QueryRow(func(row pgx.Row) error { return row.Scan(&more) })
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
