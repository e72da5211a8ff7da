package postgres

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var deadLetters = load("dead_letters")

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
	err = inTurn(len(g.plan.Partitions), func(from, to int) (more bool, err error) {
		found := make([][]rheo.DeadLetter, to-from)
		err = b.trip(ctx, reading, func(batch *pgx.Batch) {
			batch.Queue(tuneStatement)
			for i, p := range g.plan.Partitions[from:to] {
				batch.Queue(b.text(deadLetters), g.stream.id, g.id, p, page.Next.After[p], r.Limit+1-len(page.DeadLetters)).
					Query(readDeadLetters(r.Stream, &found[i]))
			}
		})
		for _, list := range found {
			for i := range list {
				if len(page.DeadLetters) == r.Limit {
					page.More = true
					return false, nil
				}
				page.DeadLetters = append(page.DeadLetters, list[i])
				page.Next.After[list[i].Partition] = list[i].Sequence
			}
		}
		return true, err
	})
	return page, err
}

func readDeadLetters(stream string, into *[]rheo.DeadLetter) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*into = nil
		s := eventScan{stream: stream}
		var d rheo.DeadLetter
		_, err := pgx.ForEachRow(rows, append(s.targets(), &d.Attempts, &d.Reason, &d.DeadLetteredAt), func() (err error) {
			if d.Event, err = s.event(); err != nil {
				return err
			}
			d.EventID, d.Partition, d.Sequence, d.DeadLetteredAt = d.Event.ID, d.Event.Partition, d.Event.Sequence, d.DeadLetteredAt.UTC()
			*into = append(*into, d)
			return nil
		})
		return err
	}
}

// tuneStatement keeps a plan from being made while a table is small that reads
// all of it once it is large.
const tuneStatement = `SELECT set_config('enable_seqscan', 'off', true)`

// inTurn calls visit for n things, one at first and then twice as many each time,
// until it says that there is enough: few round trips where there is little to
// find, and little found in vain where there is much.
func inTurn(n int, visit func(from, to int) (more bool, err error)) error {
	for from, step := 0, 1; from < n; step *= 2 {
		to := min(n, from+step)
		more, err := visit(from, to)
		if err != nil || !more {
			return err
		}
		from = to
	}
	return nil
}
