package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Fetch implements [rheo.Backend]. The claims are made in the writer's
// transaction, and the events read after it, when others may write.
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	if _, err := delivery.NewFetch(r, g.plan, b.now()); err != nil {
		return nil, err
	}
	if g.quiet.Load() {
		due, err := g.due(ctx, b.pool, b.now())
		if err != nil || len(due) == 0 {
			return nil, failure(reading, err)
		}
	}
	f := &fetching{group: g, request: r, turn: g.turn.Add(1)}
	err = b.writer.do(ctx, func(ctx context.Context, tx *transaction) error { return f.run(ctx, tx, b.now()) })
	if err != nil {
		return nil, err
	}
	g.quiet.Store(len(f.claims) == 0)
	return f.leases(ctx, b.pool)
}

// due returns the partitions in which something may be due.
func (g *group) due(ctx context.Context, s *session, now time.Time) ([]int, error) {
	var partitions []int
	err := s.each(ctx, "due", func(rows *sql.Rows) error {
		var p int
		err := rows.Scan(&p)
		partitions = append(partitions, p)
		return err
	}, g.id, now.UnixMicro())
	return partitions, err
}

// fetching is a fetch under way.
type fetching struct {
	group   *group
	request rheo.FetchRequest
	turn    uint64
	plan    *delivery.Fetch
	claims  []claim
}

// claim is what was claimed in one partition.
type claim struct {
	partition int
	spans     []ledger.Span
}

func (f *fetching) run(ctx context.Context, tx *transaction, now time.Time) error {
	f.claims = nil
	var err error
	if f.plan, err = delivery.NewFetch(f.request, f.group.plan, now); err != nil {
		return err
	}
	partitions, err := f.worthwhile(ctx, tx, now)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if err := f.claim(ctx, tx, p, now); err != nil {
			return err
		}
		if f.plan.Done() {
			break
		}
	}
	return nil
}

// worthwhile returns the partitions to try, in order. Where there are several, one
// statement tells which of them have something.
func (f *fetching) worthwhile(ctx context.Context, tx *transaction, now time.Time) ([]int, error) {
	order := f.plan.Order(f.turn)
	if len(order) == 1 {
		return order, nil
	}
	due, err := f.group.due(ctx, tx.session, now)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(order), func(p int) bool { return !slices.Contains(due, p) }), nil
}

func (f *fetching) claim(ctx context.Context, tx *transaction, partition int, now time.Time) error {
	h, err := tx.ledger(ctx, f.group, partition)
	if err != nil {
		return err
	}
	mark, err := tx.high(ctx, f.group.stream.log(partition))
	if err != nil {
		return err
	}
	claimed := f.plan.Apply(h.Ledger, mark.high)
	if len(claimed.Spans) == 0 && len(claimed.Dead) == 0 {
		return nil
	}
	tx.change(h)
	if err := bury(ctx, tx, f.group, partition, claimed.Dead, now); err != nil {
		return err
	}
	f.plan.Took(claimed.Spans)
	if len(claimed.Spans) > 0 {
		f.claims = append(f.claims, claim{partition, claimed.Spans})
	}
	return nil
}

// leases reads the events that were claimed.
func (f *fetching) leases(ctx context.Context, s *session) ([]*rheo.Lease, error) {
	var leases []*rheo.Lease
	for _, c := range f.claims {
		events, err := f.group.stream.covering(ctx, s, c.partition, c.spans)
		if err != nil {
			// They are leased, and nobody holds them: they come again when the
			// leases expire.
			return nil, failure(committing, err)
		}
		next := 0
		leases = f.plan.Leases(leases, c.partition, c.spans, func(sequence int64, e *rheo.Event) {
			for next < len(events) && events[next].Sequence < sequence {
				next++
			}
			if next < len(events) && events[next].Sequence == sequence {
				*e = events[next]
			}
		})
	}
	return leases, nil
}

// covering reads at least the events of the spans. It reads some between them, too,
// where that is less work than to jump.
func (s *stream) covering(ctx context.Context, session *session, partition int, spans []ledger.Span) ([]rheo.Event, error) {
	const jump = 16
	var events []rheo.Event
	for len(spans) > 0 {
		n := 1
		for n < len(spans) && spans[n].From-spans[n-1].To <= jump {
			n++
		}
		first, last := spans[0].From, spans[n-1].To
		found, err := s.events(ctx, session, partition, first-1, last, int(last-first+1))
		if err != nil {
			return nil, err
		}
		if events == nil {
			events = found
		} else {
			events = append(events, found...)
		}
		spans = spans[n:]
	}
	return events, nil
}
