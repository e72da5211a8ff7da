package sqlite

import (
	"context"

	"github.com/rheo-go/rheo"
)

// Append implements [rheo.Backend].
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf(r.Events)
	if err != nil {
		return nil, err
	}
	a := &appending{stream: s, rows: rows, expected: r.Expected}
	err = b.write(ctx, func(ctx context.Context, tx *transaction) error {
		if err := a.run(ctx, tx); err != nil {
			return err
		}
		tx.after = append(tx.after, func() { b.watchers.appended(s, a.added) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a.results(r.Events), nil
}

// write runs f in the host's transaction, if the call came with one, or else in
// one of the writer's.
func (b *Backend) write(ctx context.Context, f func(context.Context, *transaction) error) error {
	if tx := hostTx(ctx); tx != nil {
		return b.within(ctx, tx, f)
	}
	return b.writer.do(ctx, f)
}

// appending is an append under way.
type appending struct {
	stream   *stream
	rows     []row
	expected rheo.ExpectedSequence

	sequences []int64             // by row, what it was given
	held      map[int]*rheo.Event // by row, what was there before it
	twice     map[int]int         // by row, the row of the same batch that it repeats
	added     int64
}

// run checks every expectation before it changes anything. Then it takes all rows
// as new, which most are, and lets the database find out if one is not.
func (a *appending) run(ctx context.Context, tx *transaction) error {
	a.sequences = make([]int64, len(a.rows))
	a.held, a.twice, a.added = nil, nil, 0
	parts := a.byPartition()
	for _, items := range parts {
		if err := a.expect(ctx, tx, items); err != nil {
			return err
		}
	}
	for _, items := range parts {
		if err := a.number(ctx, tx, items); err != nil {
			return err
		}
	}
	inserted, err := a.insert(ctx, tx, a.all())
	if err != nil {
		return err
	}
	for _, items := range parts {
		if inserted < int64(len(a.rows)) {
			if items, err = a.onlyNew(ctx, tx, items); err != nil {
				return err
			}
		}
		if err := a.advance(ctx, tx, items); err != nil {
			return err
		}
	}
	return nil
}

func (a *appending) all() []int {
	all := make([]int, len(a.rows))
	for i := range all {
		all[i] = i
	}
	return all
}

// byPartition returns the rows of each partition, in the order given.
func (a *appending) byPartition() [][]int {
	var parts [][]int
	where := make(map[int]int, 1)
	for i := range a.rows {
		at, ok := where[a.rows[i].partition]
		if !ok {
			at = len(parts)
			where[a.rows[i].partition] = at
			parts = append(parts, make([]int, 0, len(a.rows)-i))
		}
		parts[at] = append(parts[at], i)
	}
	return parts
}

// expect checks the partition's expectation, if it has one, and that there is
// room.
func (a *appending) expect(ctx context.Context, tx *transaction, items []int) error {
	partition := a.rows[items[0]].partition
	mark, err := tx.high(ctx, a.stream.log(partition))
	if err != nil {
		return err
	}
	if mark.high+int64(len(items)) > maxSequence {
		return rheo.Errorf(rheo.ErrFailed, "partition %d of stream %q would have more than %d events", partition, a.stream.name, int64(maxSequence))
	}
	want, expected := a.expected[partition]
	if !expected || want == mark.high {
		return nil
	}
	for _, i := range items {
		place, err := a.placeOf(ctx, tx, i)
		if err != nil {
			return err
		}
		if place == 0 {
			return rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d; nothing was appended",
				partition, a.stream.name, mark.high, want)
		}
	}
	return nil
}

// placeOf returns where the ID of a row is, or 0 if its partition does not hold it.
func (a *appending) placeOf(ctx context.Context, tx *transaction, i int) (place int64, err error) {
	_, err = tx.one(ctx, "place-of-id", []any{&place}, a.rows[i].id, a.stream.log(a.rows[i].partition))
	return place, err
}

// number gives rows of one partition the sequences after its last.
func (a *appending) number(ctx context.Context, tx *transaction, items []int) error {
	if len(items) == 0 {
		return nil
	}
	mark, err := tx.high(ctx, a.stream.log(a.rows[items[0]].partition))
	if err != nil {
		return err
	}
	for n, i := range items {
		a.sequences[i] = mark.high + 1 + int64(n)
	}
	return nil
}

// advance moves the partition's high watermark on.
func (a *appending) advance(ctx context.Context, tx *transaction, items []int) error {
	if len(items) == 0 {
		return nil
	}
	mark, err := tx.high(ctx, a.stream.log(a.rows[items[0]].partition))
	if err != nil {
		return err
	}
	mark.high += int64(len(items))
	mark.changed = true
	a.added += int64(len(items))
	return nil
}

// insert returns how many of the rows were not there.
func (a *appending) insert(ctx context.Context, tx *transaction, items []int) (inserted int64, err error) {
	args := make([]any, 0, columns*min(len(items), batchSizes[0]))
	for _, size := range batchSizes {
		for ; len(items) >= size; items = items[size:] {
			args = args[:0]
			for _, i := range items[:size] {
				args = a.bind(args, i)
			}
			n, err := tx.write(ctx, batchNames[size], args...)
			if err != nil {
				return inserted, err
			}
			inserted += n
		}
	}
	return inserted, nil
}

const columns = 9

func (a *appending) bind(args []any, i int) []any {
	r := &a.rows[i]
	return append(args, a.stream.place(r.partition, a.sequences[i]), a.stream.id, a.stream.log(r.partition),
		r.id, r.timestamp, r.key, r.kind, r.metadata, r.payload)
}

// onlyNew takes back what was inserted in the rows' partition, sorts out those
// whose ID it holds, or the batch has named before, and inserts the others.
func (a *appending) onlyNew(ctx context.Context, tx *transaction, items []int) ([]int, error) {
	partition := a.rows[items[0]].partition
	mark, err := tx.high(ctx, a.stream.log(partition))
	if err != nil {
		return nil, err
	}
	_, err = tx.write(ctx, "delete-events", a.stream.place(partition, mark.high), a.stream.place(partition, maxSequence))
	if err != nil {
		return nil, err
	}
	fresh, err := a.sort(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	if err := a.number(ctx, tx, fresh); err != nil {
		return nil, err
	}
	_, err = a.insert(ctx, tx, fresh)
	return fresh, err
}

// sort returns the rows that are new, and notes of the others what they repeat.
func (a *appending) sort(ctx context.Context, tx *transaction, items []int) (fresh []int, err error) {
	if a.held == nil {
		a.held, a.twice = make(map[int]*rheo.Event), make(map[int]int)
	}
	first := make(map[string]int, len(items))
	for _, i := range items {
		if earlier, repeated := first[a.rows[i].id]; repeated {
			a.twice[i] = earlier
			continue
		}
		first[a.rows[i].id] = i
		place, err := a.placeOf(ctx, tx, i)
		if err != nil {
			return nil, err
		}
		if place == 0 {
			fresh = append(fresh, i)
			continue
		}
		if a.held[i], err = a.stored(ctx, tx, place); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

func (a *appending) stored(ctx context.Context, tx *transaction, place int64) (*rheo.Event, error) {
	partition, sequence := a.stream.at(place)
	events, err := a.stream.events(ctx, tx.session, partition, sequence-1, sequence, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, rheo.Errorf(rheo.ErrFailed, "the index of IDs names %s/%d/%d, which is not there: check the database with PRAGMA integrity_check", a.stream.name, partition, sequence)
	}
	return &events[0], nil
}

func (a *appending) results(events []rheo.Event) []rheo.AppendResult {
	results := make([]rheo.AppendResult, len(events))
	for i := range events {
		if original, repeated := a.twice[i]; repeated {
			results[i] = rheo.AppendResult{Event: results[original].Clone(), Duplicate: true}
			continue
		}
		if stored := a.held[i]; stored != nil {
			results[i] = rheo.AppendResult{Event: *stored, Duplicate: true}
			continue
		}
		results[i].Event = events[i]
		results[i].Sequence = a.sequences[i]
	}
	return results
}
