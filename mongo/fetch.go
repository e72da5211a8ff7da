package mongo

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// fetchWidth is how many partitions a fetch looks at together.
const fetchWidth = 128

// Fetch implements [rheo.Backend]. It reads the ledgers, claims on them here, reads
// the events, unless they are remembered, and only then stores the ledgers: what
// fails before that has claimed nothing.
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now, err := b.now(ctx)
	if err != nil {
		return nil, err
	}
	fetch, err := delivery.NewFetch(r, g.plan, now)
	if err != nil {
		return nil, err
	}
	order := fetch.Order(g.turn.Add(1))
	for from := 0; from < len(order); from += fetchWidth {
		leases, err := b.fetchFrom(ctx, g, r, now, order[from:min(len(order), from+fetchWidth)])
		if err != nil || len(leases) > 0 {
			return leases, err
		}
	}
	return nil, nil
}

// fetchFrom fetches from the partitions, again if others took all that was there.
func (b *Backend) fetchFrom(ctx context.Context, g *group, r rheo.FetchRequest, now time.Time, partitions []int) ([]*rheo.Lease, error) {
	var p patience
	for {
		c, err := b.claim(ctx, g, r, now, partitions)
		if err != nil || len(c.takes) == 0 {
			return nil, err
		}
		have, err := b.load(ctx, g.stream, c.stretches(), c.found...)
		if err != nil {
			return nil, err
		}
		if err := b.store(ctx, c.swaps()); err != nil {
			return nil, err
		}
		leases, err := c.leases(have)
		if err != nil || len(leases) > 0 || c.won() {
			return leases, err
		}
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// claims is what a fetch would take.
type claims struct {
	fetch *delivery.Fetch
	takes []*take
	found []*commit // documents that were read on the way
}

// take is what it would take of one partition.
type take struct {
	swap
	spans []ledger.Span
}

// claim reads the ledgers and claims on them. If what the log is known to hold is
// not enough, it looks for what has come since.
func (b *Backend) claim(ctx context.Context, g *group, r rheo.FetchRequest, now time.Time, partitions []int) (*claims, error) {
	rows, err := b.ledgersOf(ctx, g, partitions)
	if err != nil {
		return nil, err
	}
	c, err := claimOn(g, r, now, rows)
	if err != nil || c.fetch.Done() {
		return c, err
	}
	found, grown, err := b.lookBehind(ctx, g.stream, rows, r.Max, c.stretches())
	if err != nil {
		return nil, err
	}
	if grown {
		if c, err = claimOn(g, r, now, rows); err != nil {
			return nil, err
		}
	}
	c.found = found
	return c, nil
}

// claimOn claims on ledgers as they were read, up to what the log is known to hold.
func claimOn(g *group, r rheo.FetchRequest, now time.Time, rows []*row) (*claims, error) {
	fetch, err := delivery.NewFetch(r, g.plan, now)
	if err != nil {
		return nil, err
	}
	c := &claims{fetch: fetch}
	for _, row := range rows {
		l, err := row.decode()
		if err != nil {
			return nil, err
		}
		claimed := fetch.Apply(l, g.stream.tail(row.Partition))
		if len(claimed.Spans) == 0 && len(claimed.Dead) == 0 {
			continue
		}
		fetch.Took(claimed.Spans)
		t := &take{swap: swap{old: row, new: row.next(l)}, spans: claimed.Spans}
		t.bury(claimed.Dead, now)
		c.takes = append(c.takes, t)
		if fetch.Done() {
			break
		}
	}
	return c, nil
}

// lookBehind looks for up to most events behind each tail, or behind the cursor if
// less is known of the log than the group has seen, and reports whether there
// are any. In the same command it reads those of the stretches that are not
// remembered: together they are what the fetch is about to want.
func (b *Backend) lookBehind(ctx context.Context, s *stream, rows []*row, most int, wanted []stretch) (found []*commit, grown bool, err error) {
	const mostDocuments = 1000
	conditions, limit := bson.A{}, int64(0)
	_, missing := b.recall(s, wanted, newShelf(s, nil))
	for _, t := range missing {
		conditions = append(conditions, t.condition(s.name))
		limit = add(limit, t.to-t.from+1)
	}
	ends := make(map[int]int64, len(rows))
	for _, r := range rows {
		ends[r.Partition] = max(s.tail(r.Partition), r.Cursor)
		from := add(ends[r.Partition], 1)
		conditions = append(conditions, stretch{r.Partition, from, add(from, int64(most)-1)}.condition(s.name))
		limit = add(limit, int64(most))
	}
	o := options.Find().SetSort(bson.D{{Key: "partition", Value: 1}, {Key: "last", Value: 1}}).
		SetLimit(-min(limit, mostDocuments)) // negative: one answer, however much it holds
	if found, err = b.find(ctx, either(conditions), o); err != nil {
		return nil, false, err
	}
	for _, c := range found {
		if end := ends[c.Partition]; c.First <= end+1 && c.Last > end {
			ends[c.Partition] = c.Last
			s.raise(c.Partition, c.Last)
			grown = true
		}
		b.commits.put(c)
	}
	return found, grown, nil
}

func (c *claims) swaps() []*swap {
	swaps := make([]*swap, len(c.takes))
	for i, t := range c.takes {
		swaps[i] = &t.swap
	}
	return swaps
}

func (c *claims) stretches() []stretch {
	var all []stretch
	for _, t := range c.takes {
		for _, span := range t.spans {
			all = append(all, stretch{t.old.Partition, span.From, span.To})
		}
	}
	return joined(all)
}

// won reports whether something was stored, if only dead letters.
func (c *claims) won() bool {
	return slices.ContainsFunc(c.takes, func(t *take) bool { return t.swap.won })
}

func (c *claims) leases(have *shelf) (leases []*rheo.Lease, err error) {
	for _, t := range c.takes {
		if !t.swap.won {
			continue
		}
		leases = c.fetch.Leases(leases, t.old.Partition, t.spans, func(sequence int64, e *rheo.Event) {
			found, missing := have.event(t.old.Partition, sequence)
			if missing != nil {
				err = missing
			}
			*e = found
		})
	}
	return leases, err
}
