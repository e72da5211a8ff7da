package sqlite

import (
	"context"
	"math/rand/v2"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// transaction is a write transaction under way. Several calls may share it, one
// after the other: what they do to high watermarks and ledgers is kept here, and
// written once, by flush.
type transaction struct {
	*session
	cache   *ledgerCache // nil: none
	highs   map[int64]*highMark
	ledgers map[ledgerKey]*heldLedger
	signals map[*stream]struct{}
	changes int      // goes up with whatever a rollback would take back
	after   []func() // to be done once it is committed
}

type highMark struct {
	high    int64
	changed bool
}

func newTransaction(s *session, cache *ledgerCache) *transaction {
	return &transaction{
		session: s, cache: cache,
		highs: make(map[int64]*highMark), ledgers: make(map[ledgerKey]*heldLedger),
	}
}

// high returns the last sequence of the log, as this transaction leaves it.
func (t *transaction) high(ctx context.Context, log int64) (*highMark, error) {
	if h := t.highs[log]; h != nil {
		return h, nil
	}
	h := &highMark{}
	found, err := t.one(ctx, "high", []any{&h.high}, log)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rheo.Errorf(rheo.ErrFailed, "the database has no row for log %d; was a table restored without the others?", log)
	}
	t.highs[log] = h
	return h, nil
}

// heldLedger is a ledger that this transaction may change.
type heldLedger struct {
	*ledger.Ledger
	revision int64
	changed  bool
}

// ledger returns the group's ledger of the partition. Who changes it says so with
// change.
func (t *transaction) ledger(ctx context.Context, g *group, partition int) (*heldLedger, error) {
	key := ledgerKey{g.id, partition}
	if h := t.ledgers[key]; h != nil {
		return h, nil
	}
	known := t.cache.take(key)
	h := &heldLedger{}
	var state []byte
	found, err := t.one(ctx, "ledger", []any{&h.revision, &state}, known.revision, g.id, partition)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rheo.Errorf(rheo.ErrFailed, "the database has no ledger for partition %d of group %q; was a table restored without the others?", partition, g.name)
	}
	if h.Ledger = known.ledger; state != nil {
		if h.Ledger, err = decode(state, g, partition); err != nil {
			return nil, err
		}
	}
	t.ledgers[key] = h
	return h, nil
}

func decode(state []byte, g *group, partition int) (*ledger.Ledger, error) {
	l := ledger.New(0)
	if err := l.UnmarshalBinary(state); err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err,
			"the ledger of partition %d of group %q on stream %q cannot be read: restore the database from a backup, or reset the group", partition, g.name, g.stream.name)
	}
	return l, nil
}

// change marks a ledger that was changed.
func (t *transaction) change(h *heldLedger) {
	h.changed = true
	t.changes++
}

// signal tells other processes that deliveries of the stream became available.
func (t *transaction) signal(s *stream) {
	if t.signals == nil {
		t.signals = make(map[*stream]struct{})
	}
	t.signals[s] = struct{}{}
}

// write runs a statement that changes something.
func (t *transaction) write(ctx context.Context, name string, args ...any) (int64, error) {
	t.changes++
	return t.exec(ctx, name, args...)
}

// flush writes what was kept.
func (t *transaction) flush(ctx context.Context) error {
	for log, h := range t.highs {
		if !h.changed {
			continue
		}
		if _, err := t.exec(ctx, "set-high", h.high, log); err != nil {
			return err
		}
	}
	for key, h := range t.ledgers {
		if !h.changed {
			continue
		}
		h.revision = newRevision()
		state, err := h.MarshalBinary()
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "set-ledger", h.revision, h.Cursor(), h.Due(), state, key.group, key.partition); err != nil {
			return err
		}
	}
	for s := range t.signals {
		if _, err := t.exec(ctx, "signal", s.id); err != nil {
			return err
		}
	}
	return nil
}

// committed keeps the ledgers for the next transaction, and does what was put off.
func (t *transaction) committed() {
	for key, h := range t.ledgers {
		t.cache.put(key, h)
	}
	for _, do := range t.after {
		do()
	}
}

// newRevision returns a number that no other state of the ledger has had. It is
// drawn, not counted: a count of a transaction that was rolled back comes again.
func newRevision() int64 { return rand.Int64() + 1 }

type ledgerKey struct {
	group     int64
	partition int
}

// ledgerCache keeps ledgers as they were last stored, to save decoding. It belongs
// to the writer's goroutine. A nil cache keeps nothing.
type ledgerCache struct {
	kept map[ledgerKey]keptLedger
}

type keptLedger struct {
	revision int64
	ledger   *ledger.Ledger
}

// maxKeptLedgers bounds the cache.
const maxKeptLedgers = 4096

// take returns the ledger and forgets it: who takes it may change it, and its
// transaction may be rolled back.
func (c *ledgerCache) take(key ledgerKey) keptLedger {
	if c == nil {
		return keptLedger{}
	}
	kept := c.kept[key]
	delete(c.kept, key)
	return kept
}

func (c *ledgerCache) put(key ledgerKey, h *heldLedger) {
	if c == nil {
		return
	}
	if len(c.kept) >= maxKeptLedgers {
		clear(c.kept)
	}
	c.kept[key] = keptLedger{h.revision, h.Ledger}
}
