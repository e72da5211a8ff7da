package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var (
	appendEvents = load("append")
	appendOne    = load("append_one")
	appendLock   = load("append_lock")
	appendHighs  = load("append_highs")
	appendHeld   = load("append_held")
)

// Append implements [rheo.Backend]. Calls that come while one is under way form
// the next one together.
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	if hostTx(ctx) != nil {
		return b.putAside(ctx, s, r)
	}
	call, err := newAppendCall(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(r.Expected) > 0 {
		call.err = b.appendAll(ctx, s, []*appendCall{call})
	} else {
		b.combine(s, call)
	}
	if err := call.failure(); err != nil {
		return nil, err
	}
	b.wake(r.Stream)
	results := make([]rheo.AppendResult, len(r.Events))
	for i := range r.Events {
		results[i] = call.result(i, &r.Events[i])
	}
	return results, nil
}

// slot is an event of an append under way, and where it came to be.
type slot struct {
	call     *appendCall // whose event it is, and the which
	row      int
	sequence int64
	stored   *rheo.Event // what the log held under its ID before, if it did
}

func (s *slot) partition() int32 { return s.call.rows.partition[s.row] }
func (s *slot) key() eventKey    { return eventKey{s.partition(), s.call.rows.id[s.row]} }

// eventKey is what is unique in a stream.
type eventKey struct {
	partition int32
	id        string
}

// result is what became of the call's i-th event.
func (c *appendCall) result(i int, e *rheo.Event) rheo.AppendResult {
	slot := c.slots[i]
	switch {
	case slot.stored != nil:
		return rheo.AppendResult{Event: slot.stored.Clone(), Duplicate: true}
	case slot.call != c || slot.row != i:
		first := slot.call.rows.event(slot.row)
		first.Stream, first.Sequence = e.Stream, slot.sequence
		return rheo.AppendResult{Event: first, Duplicate: true}
	}
	appended := *e
	appended.Sequence = slot.sequence
	return rheo.AppendResult{Event: appended}
}

// slotsOf gives every event of the calls a slot, those of the same ID the same
// one, and returns the slots in order.
func slotsOf(calls []*appendCall) []*slot {
	n := 0
	for _, c := range calls {
		n += c.rows.len()
	}
	all, known := make([]*slot, 0, n), make(map[eventKey]*slot, n)
	made := make([]slot, n)
	for _, c := range calls {
		c.slots = make([]*slot, c.rows.len())
		for row := range c.slots {
			s := &made[len(all)]
			s.call, s.row = c, row
			if first, twice := known[s.key()]; twice {
				s = first
			} else {
				known[s.key()] = s
				all = append(all, s)
			}
			c.slots[row] = s
		}
	}
	return all
}

// appendAll appends what the calls bring, in one transaction.
func (b *Backend) appendAll(ctx context.Context, s *stream, calls []*appendCall) error {
	slots := slotsOf(calls)
	w := newWrite(slots, calls[0].expected)
	if len(calls[0].expected) > 0 && len(w.partitions) > 1 || s.careful.Add(-1) >= 0 {
		return b.appendChecked(ctx, s, slots, calls[0].expected)
	}
	err := b.trip(ctx, writing, func(batch *pgx.Batch) { w.queue(b, s, batch) })
	switch {
	case isUnique(err, b.names.prefix+"events_id"):
		// What was sent once may well be sent again: the next appends look first.
		const lookFirst = 32
		s.careful.Store(lookFirst)
	case err != nil:
		return err
	case len(w.bases) == len(w.partitions):
		w.number(s)
		return nil
	}
	return b.appendChecked(ctx, s, slots, calls[0].expected)
}

// appendChecked appends in two round trips: it locks the partitions, looks at
// what they hold, and then writes the rest.
func (b *Backend) appendChecked(ctx context.Context, s *stream, slots []*slot, expected rheo.ExpectedSequence) error {
	w := newWrite(slots, nil)
	ids := make([]string, len(slots))
	for i, slot := range slots {
		ids[i] = slot.call.rows.id[slot.row]
	}
	highs, held := make(map[int32]int64), make(map[eventKey]*rheo.Event)
	var fresh *write
	err := b.transact(ctx, func(batch *pgx.Batch) {
		clear(highs)
		clear(held)
		batch.Queue(b.text(appendHighs), s.id, w.partitions).Query(intoMap(highs))
		batch.Queue(b.text(appendHeld), s.id, w.partitions, ids).Query(func(rows pgx.Rows) error {
			return eachEvent(rows, s.name, func(e rheo.Event) { held[eventKey{int32(e.Partition), e.ID}] = &e })
		})
	}, func(_ context.Context, _ *pgx.Conn, batch *pgx.Batch) error {
		if len(highs) < len(w.partitions) {
			return b.gone(s)
		}
		for _, slot := range slots {
			slot.stored = held[slot.key()]
		}
		fresh = newWrite(slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool { return s.stored != nil }), nil)
		for _, p := range fresh.partitions {
			if want, ok := expected[int(p)]; ok && want != highs[p] {
				return rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d; nothing was appended",
					p, s.name, highs[p], want)
			}
		}
		if len(fresh.slots) > 0 {
			fresh.queue(b, s, batch)
		}
		return nil
	})
	if err == nil && len(fresh.slots) > 0 {
		fresh.number(s)
	}
	return err
}

// intoMap reads rows of a partition and a number.
func intoMap(m map[int32]int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var partition int32
		var value int64
		_, err := pgx.ForEachRow(rows, []any{&partition, &value}, func() error {
			m[partition] = value
			return nil
		})
		return err
	}
}
