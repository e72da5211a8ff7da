package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

var nowStatement = statement(`SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now, err := b.settleTime(ctx, r.Settlements)
	if err != nil {
		return nil, err
	}
	settle := delivery.NewSettle(r, g.plan, now)
	refused := failures(settle.Results())
	err = b.perform(ctx, change{
		group:      g,
		partitions: settle.Partitions(),
		apply: func(p int, l *ledger.Ledger) ([]ledger.Dead, bool) {
			return settle.Apply(p, l, g.plan.MaxAttempts)
		},
		sure: func() bool { return failures(settle.Results()) == refused },
	})
	if err != nil {
		return nil, err
	}
	if givesBack(r.Settlements) && hostTx(ctx) == nil {
		b.wake(r.Stream)
	}
	return settle.Results(), nil
}

// settleTime returns the store's time if a settlement needs it: for the end of a
// nack's delay.
func (b *Backend) settleTime(ctx context.Context, settlements []rheo.Settlement) (time.Time, error) {
	if !slices.ContainsFunc(settlements, func(s rheo.Settlement) bool { return s.Delay > 0 }) {
		return time.Time{}, nil
	}
	return b.now(ctx)
}

// now returns the store's time. It asks if nothing has told it lately.
func (b *Backend) now(ctx context.Context) (time.Time, error) {
	if now, ok := b.clock.now(); ok {
		return now, nil
	}
	var now time.Time
	err := b.trip(ctx, reading, func(batch *pgx.Batch) {
		sent := time.Now()
		batch.Queue(b.text(nowStatement)).QueryRow(func(row pgx.Row) error {
			var micros int64
			err := row.Scan(&micros)
			if err == nil {
				now = b.clock.note(sent, micros)
			}
			return err
		})
	})
	return now, err
}

func failures(results []error) int {
	n := 0
	for _, err := range results {
		if err != nil {
			n++
		}
	}
	return n
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}
