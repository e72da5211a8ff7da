package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

// What a group may fetch on what this process knows, before it looks again: others
// append as well, to partitions that wait for their turn.
const (
	mostUnseen   = 8
	unseenWithin = 50 * time.Millisecond
	// worthwhile is how many known deliveries are enough, whatever more is asked
	// for: the round trip that would find the rest costs more than it brings.
	worthwhile = 64
)

// glance is when a group last looked at the database, and how often it has fetched
// without looking since.
type glance struct {
	at     atomic.Int64 // nanoseconds since 1970
	unseen atomic.Int64
}

func (l *glance) looked() {
	l.unseen.Store(0)
	l.at.Store(time.Now().UnixNano())
}

// mayPass reports whether a fetch may do without looking, and counts it.
func (l *glance) mayPass() bool {
	since := time.Duration(time.Now().UnixNano() - l.at.Load())
	return since >= 0 && since < unseenWithin && l.unseen.Add(1) <= mostUnseen
}

// fetchKnown is a fetch in one round trip, for when this process knows of events
// enough, on ledgers that it remembers. That these are still what they were is seen
// when they are stored. It returns nothing if it knows too little, or if others
// were faster.
func (b *Backend) fetchKnown(ctx context.Context, g *group, r rheo.FetchRequest, turn uint64) ([]*rheo.Lease, error) {
	if g.plan.Ordered {
		return nil, nil // it may take less than there is, and another partition have more
	}
	now, fresh := b.clock.now()
	if !fresh || !g.glance.mayPass() {
		return nil, nil
	}
	fetch, err := delivery.NewFetch(r, g.plan, now)
	if err != nil {
		return nil, err
	}
	entries := g.ownKnown(fetch.Order(turn), min(r.Max, worthwhile), now)
	defer leaveAll(entries)
	var takes []take
	for _, e := range entries {
		s := swap{partition: e.partition, old: e.version, new: newVersion(), ledger: e.ledger}
		takes = appendTake(takes, fetch, s, g.stream.high(e.partition))
	}
	if len(takes) == 0 {
		return nil, nil
	}
	return b.store(ctx, g, fetch, takes)
}

// ownKnown owns the entries, in this order, that hold as many deliveries as is
// enough, as far as is known. It owns none if that is too few, or if one that is
// not known would have had its turn.
func (g *group) ownKnown(order []int, enough int, now time.Time) (owned []*entry) {
	for _, p := range order {
		e := g.entries[p]
		if !e.own.tryEnter() {
			continue // it has its turn just now
		}
		owned = append(owned, e)
		if e.ledger == nil {
			break
		}
		if enough -= g.known(e, now); enough <= 0 {
			return owned
		}
	}
	leaveAll(owned)
	return nil
}

// known is how many deliveries the entry has at least.
func (g *group) known(e *entry, now time.Time) int {
	n := max(0, int(g.stream.high(e.partition)-e.ledger.Cursor()))
	if n == 0 && e.ledger.Due() <= now.UnixMicro() {
		return 1
	}
	return n
}

func leaveAll(entries []*entry) {
	for _, e := range entries {
		e.own.leave()
	}
}
