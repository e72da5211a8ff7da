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

var (
	fetchLook       = load("fetch_look")
	fetchCandidates = load("fetch_candidates")
)

// fetchWidth is how many partitions a fetch looks at together.
const fetchWidth = 64

// Fetch implements [rheo.Backend]. It asks which partitions have something due,
// unless it knows; claims on their ledgers here, and stores these if nobody else
// has changed them meanwhile, reading the events in the same round trip. Only if
// all of that is lost to others does it take locks.
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	if _, err := delivery.NewFetch(r, g.plan, time.Time{}); err != nil {
		return nil, err
	}
	turn := g.turn.Add(1)
	if hostTx(ctx) == nil {
		if leases, err := b.fetchKnown(ctx, g, r, turn); err != nil || len(leases) > 0 {
			return leases, err
		}
	}
	seen, err := b.fetchLook(ctx, g, r, g.start(turn))
	if err != nil || len(seen.candidates) == 0 {
		return nil, err
	}
	leases, contended, err := b.claim(ctx, g, r, seen)
	if err != nil || len(leases) > 0 || !contended {
		return leases, err
	}
	return b.fetchLocked(ctx, g, r)
}

// sight is what the first round trip of a fetch has seen.
type sight struct {
	now        time.Time
	changes    uint64 // the group's count when it was sent
	candidates []candidate
}

// candidate is a partition with something due, as its row is.
type candidate struct {
	row
	cursor int64
}

// start is where the fetch's order over the partitions begins.
func (g *group) start(turn uint64) int {
	return g.plan.Partitions[int(turn%uint64(len(g.plan.Partitions)))]
}

func (b *Backend) fetchLook(ctx context.Context, g *group, r rheo.FetchRequest, start int) (sight, error) {
	var known []int64
	for _, e := range g.entries {
		if version := e.large.Load(); version != 0 {
			known = append(known, version)
		}
	}
	for round := 1; ; round++ {
		var seen sight
		var there, behind bool
		err := b.trip(ctx, reading, func(batch *pgx.Batch) {
			seen = sight{changes: g.changes.Load()}
			sent := time.Now()
			batch.Queue(b.text(fetchLook), g.id, g.name, b.clock.parameter()).QueryRow(func(row pgx.Row) error {
				var micros int64
				err := row.Scan(nil, &micros, &behind)
				if there = err == nil; noRows(err) {
					return nil
				}
				if err == nil {
					seen.now = b.clock.note(sent, micros)
				}
				return err
			})
			batch.Queue(b.text(fetchCandidates), g.stream.id, g.id, b.clock.parameter(), partitionsOf(r.Partitions), start, known, fetchWidth).
				Query(seen.read)
		})
		switch {
		case err != nil:
			return seen, err
		case !there:
			return seen, b.groupGone(g)
		case !behind || round > 1:
			g.glance.looked()
			for i := range seen.candidates {
				g.stream.raise(seen.candidates[i].partition, seen.candidates[i].high)
			}
			return seen, nil
		}
		if err := b.place(ctx, g.stream.id); err != nil {
			return seen, err
		}
	}
}

// partitionsOf is the argument for partitions, NULL if all are meant.
func partitionsOf(named []int) []int {
	if len(named) == 0 {
		return nil
	}
	return named
}

func (s *sight) read(rows pgx.Rows) error {
	var c candidate
	_, err := pgx.ForEachRow(rows, []any{&c.partition, &c.version, &c.cursor, &c.high, &c.ledger}, func() error {
		s.candidates = append(s.candidates, c)
		c.ledger = nil
		return nil
	})
	return err
}

// claim takes what it can get without waiting for anybody. contended says that
// others were in the way.
func (b *Backend) claim(ctx context.Context, g *group, r rheo.FetchRequest, seen sight) (leases []*rheo.Lease, contended bool, err error) {
	fetch, err := delivery.NewFetch(r, g.plan, seen.now)
	if err != nil {
		return nil, false, err
	}
	candidates := seen.enoughFor(r.Max)
	owned := make([]int, len(candidates))
	for i := range candidates {
		owned[i] = candidates[i].partition
	}
	release, err := g.ownAll(ctx, ascending(owned))
	if err != nil {
		return nil, false, err
	}
	defer release()
	var takes []take
	for i := range candidates {
		l, version, err := g.current(&candidates[i], seen.changes)
		if err != nil {
			for i := range takes { // they hold what will not be stored
				b.forget(g.entries[takes[i].partition])
			}
			return nil, false, err
		}
		if l == nil {
			contended = true
			continue
		}
		takes = appendTake(takes, fetch, swap{partition: candidates[i].partition, old: version, new: newVersion(), ledger: l}, candidates[i].high)
		if fetch.Done() {
			break
		}
	}
	if len(takes) == 0 {
		return nil, contended, nil
	}
	leases, err = b.store(ctx, g, fetch, takes)
	return leases, true, err
}

// enoughFor cuts the candidates, in their order, to those that are needed for
// that many leases as far as one can tell.
func (s *sight) enoughFor(leases int) []candidate {
	left := int64(leases)
	for i := range s.candidates {
		left -= max(1, s.candidates[i].high-s.candidates[i].cursor)
		if left <= 0 {
			return s.candidates[:i+1]
		}
	}
	return s.candidates
}

// current returns the candidate's ledger, which the caller owns: as remembered,
// if this process has changed it since the row was read or if the row is still
// that. It returns nil if neither knows it.
func (g *group) current(c *candidate, since uint64) (*ledger.Ledger, int64, error) {
	e := g.entries[c.partition]
	if e.ledger != nil && (e.changed > since || e.version == c.version) {
		return e.ledger, e.version, nil
	}
	if c.ledger == nil {
		return nil, 0, nil
	}
	l, err := decode(c.ledger)
	return l, c.version, err
}

// take is what a fetch claims in one partition.
type take struct {
	swap
	spans  []ledger.Span
	events []rheo.Event
}

func appendTake(takes []take, fetch *delivery.Fetch, s swap, high int64) []take {
	claimed := fetch.Apply(s.ledger, high)
	if len(claimed.Spans) == 0 && len(claimed.Dead) == 0 {
		return takes
	}
	fetch.Took(claimed.Spans)
	s.dead = claimed.Dead
	return append(takes, take{swap: s, spans: claimed.Spans})
}

// store writes the ledgers claimed on and reads the events, in one round trip.
// Claims need no flush: what a crash takes back is handed out again. Dead letters
// do.
func (b *Backend) store(ctx context.Context, g *group, fetch *delivery.Fetch, takes []take) ([]*rheo.Lease, error) {
	order := make([]int, len(takes)) // of the partitions, ascending: nobody waits in a circle
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return takes[i].partition - takes[j].partition })
	err := b.trip(ctx, writing, func(batch *pgx.Batch) {
		batch.Queue(b.text(quietStatement), !slices.ContainsFunc(takes, func(t take) bool { return len(t.dead) > 0 }))
		for _, i := range order {
			b.queueSwap(batch, ledgerSwapFree, g, &takes[i].swap)
		}
		for i := range takes {
			b.queueEvents(batch, g.stream, &takes[i])
		}
	})
	for i := range takes {
		e := g.entries[takes[i].partition]
		if err != nil || !takes[i].won {
			b.forget(e)
		} else {
			b.keep(g, e, takes[i].ledger, takes[i].new)
		}
	}
	if err != nil {
		return nil, err
	}
	return leasesOf(fetch, takes)
}

func leasesOf(fetch *delivery.Fetch, takes []take) (leases []*rheo.Lease, err error) {
	for i := range takes {
		t := &takes[i]
		if !t.won {
			continue
		}
		next := 0
		leases = fetch.Leases(leases, t.partition, t.spans, func(sequence int64, e *rheo.Event) {
			if next < len(t.events) && t.events[next].Sequence == sequence {
				*e = t.events[next]
				next++
			} else {
				err = rheo.Errorf(rheo.ErrFailed, "event %d of partition %d is missing from the log", sequence, t.partition)
			}
		})
	}
	return leases, err
}
