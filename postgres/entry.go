package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// turnstile lets one through at a time. Unlike a mutex it minds contexts: what
// goes on behind it takes as long as the database does.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

func (t turnstile) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended while another call was under way")
	}
}

func (t turnstile) tryEnter() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turnstile) leave() { <-t }

// entry is a ledger as this process last knew it. While its version is the one
// in the database the ledger is too, so that a change needs no reading first.
// Whoever owns the entry may use it; several are owned in ascending order of
// partition.
type entry struct {
	partition int
	own       turnstile
	ledger    *ledger.Ledger // nil: not known
	version   int64
	changed   uint64       // the group's count of changes at the last one made here
	large     atomic.Int64 // the version, if the ledger is costly to send
}

// largeRuns is from how many runs on a ledger that is known is not asked for.
const largeRuns = 64

// keep remembers what is in the database now.
func (b *Backend) keep(g *group, e *entry, l *ledger.Ledger, version int64) {
	if e.ledger == nil {
		b.ledgers.count.Add(1)
	}
	e.ledger, e.version, e.changed = l, version, g.changes.Add(1)
	if l.Len() >= largeRuns {
		e.large.Store(version)
	} else {
		e.large.Store(0)
	}
	if b.ledgers.count.Load() > mostLedgers {
		b.evict()
	}
}

// forget is for when that is no longer known.
func (b *Backend) forget(e *entry) {
	if e.ledger != nil {
		b.ledgers.count.Add(-1)
	}
	e.ledger, e.version = nil, 0
	e.large.Store(0)
}

// mostLedgers bounds how many ledgers are remembered.
const mostLedgers = 4096

type ledgerCache struct{ count atomic.Int64 }

// evict forgets some, whichever nobody owns.
func (b *Backend) evict() {
	b.groups.Range(func(_, g any) bool {
		for _, e := range g.(*group).entries {
			if e.own.tryEnter() {
				b.forget(e)
				e.own.leave()
			}
		}
		return b.ledgers.count.Load() > mostLedgers*3/4
	})
}

// ownAll owns the entries of the partitions, which ascend, and returns how to
// let go of them.
func (g *group) ownAll(ctx context.Context, partitions []int) (release func(), err error) {
	owned := 0
	release = func() {
		for _, p := range partitions[:owned] {
			g.entries[p].own.leave()
		}
	}
	for _, p := range partitions {
		if err := g.entries[p].own.enter(ctx); err != nil {
			release()
			return nil, err
		}
		owned++
	}
	return release, nil
}

// newVersion never is one that the ledger had before: it is random, not counted,
// since a crash may take back writes that were not flushed yet, and another
// process then write something else.
func newVersion() int64 {
	for {
		if v := rand.Int64(); v != 0 {
			return v
		}
	}
}

func decode(encoded []byte) (*ledger.Ledger, error) {
	l := new(ledger.Ledger)
	if err := l.UnmarshalBinary(encoded); err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "a ledger in the database cannot be read")
	}
	return l, nil
}

// ascending returns the numbers in order.
func ascending(numbers []int) []int {
	return slices.Sorted(slices.Values(numbers))
}
