package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var (
	lookStatement = load("look")
	readStatement = load("read")
)

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	var events []rheo.Event
	err = b.look(ctx, s, func(batch *pgx.Batch) {
		events = nil
		batch.Queue(b.text(readStatement), s.id, r.Partition, r.After, r.Limit).Query(func(rows pgx.Rows) error {
			return eachEvent(rows, s.name, func(e rheo.Event) { events = append(events, e) })
		})
	})
	return events, err
}

// look asks the statements that ask queues about a stream, in one round trip; if
// it turns out that a committed transaction has put events aside, it gives these
// their place and asks once more.
func (b *Backend) look(ctx context.Context, s *stream, ask func(*pgx.Batch)) error {
	for round := 1; ; round++ {
		there, behind := false, false
		err := b.trip(ctx, reading, func(batch *pgx.Batch) {
			batch.Queue(b.text(lookStatement), s.id, s.name).QueryRow(func(row pgx.Row) error {
				there, behind = false, false
				err := row.Scan(nil, &behind)
				if there = err == nil; noRows(err) {
					return nil
				}
				return err
			})
			ask(batch)
		})
		switch {
		case err != nil:
			return err
		case !there:
			return b.gone(s)
		case !behind || round > 1:
			return nil
		}
		if err := b.place(ctx, s.id); err != nil {
			return err
		}
	}
}
