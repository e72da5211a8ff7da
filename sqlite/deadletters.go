package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// bury files a dead letter for each sequence that a ledger has rejected.
func bury(ctx context.Context, tx *transaction, g *group, partition int, dead []ledger.Dead, now time.Time) error {
	for _, d := range dead {
		for sequence := d.From; sequence <= d.To; sequence++ {
			_, err := tx.write(ctx, "bury", g.id, g.stream.place(partition, sequence), d.Attempts, d.Reason, now.UnixMicro())
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// exhume deletes the dead letters of a range of sequences.
func exhume(ctx context.Context, tx *transaction, g *group, partition int, from, to int64) error {
	_, err := tx.write(ctx, "exhume", g.id, g.stream.place(partition, from), g.stream.place(partition, to))
	return err
}

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	for _, p := range g.config.Partitions {
		found, err := b.deadAfter(ctx, g, p, page.Next.After[p], r.Limit+1-len(page.DeadLetters))
		if err != nil {
			return rheo.DeadLetterPage{}, failure(reading, err)
		}
		for i := range found {
			if len(page.DeadLetters) == r.Limit {
				page.More = true
				return page, nil
			}
			page.DeadLetters = append(page.DeadLetters, found[i])
			page.Next.After[p] = found[i].Sequence
		}
	}
	return page, nil
}

func (b *Backend) deadAfter(ctx context.Context, g *group, partition int, after int64, limit int) ([]rheo.DeadLetter, error) {
	var found []rheo.DeadLetter
	var d rheo.DeadLetter
	var at int64
	reader := newEventReader(g.stream, &d.Attempts, &d.Reason, &at)
	err := b.pool.each(ctx, "dead-letters", func(rows *sql.Rows) error {
		e, err := reader.read(rows)
		if err != nil {
			return err
		}
		d.Event, d.EventID, d.Partition, d.Sequence = e, e.ID, partition, e.Sequence
		d.DeadLetteredAt = time.UnixMicro(at).UTC()
		found = append(found, d)
		return nil
	}, g.id, g.stream.place(partition, after), g.stream.place(partition, maxSequence), limit)
	return found, err
}
