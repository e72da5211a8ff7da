package embedded

import (
	"context"
	"strings"

	"github.com/rheo-go/rheo"
	"go.etcd.io/bbolt"
)

// appending is an append under way. What the caller's goroutine can do it does
// before the committer sees it: find the duplicates among what is durable, and
// encode the rest.
type appending struct {
	stream   *stream
	request  rheo.AppendRequest
	outcomes []appendOutcome // by event
	parts    []*appendPart
	size     int
}

// appendOutcome is what became of an event: its sequence, and whether it had it
// already; or, until that of the event with the same ID earlier in the batch is
// known, the place of that one.
type appendOutcome struct {
	sequence  int64
	duplicate bool
	like      int // 1 + index of the earlier one, 0 if none
}

// appendPart is what an append brings to one partition, duplicates apart.
type appendPart struct {
	p       *partition
	items   []int // by place in the part: index of the event
	ids     []string
	encoded encodedEvents
	check   idCheck

	// Set by the committer.
	sequences  []int64 // by place in the part
	duplicates []bool  // nil if there are none
	fresh      int     // events that are no duplicates
}

// Append implements [rheo.Backend].
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	s, err := b.stream(r.Stream)
	if err != nil {
		return nil, err
	}
	a := &appending{stream: s, request: r, outcomes: make([]appendOutcome, len(r.Events))}
	if err := a.prepare(b.db); err != nil {
		return nil, err
	}
	if len(a.parts) > 0 {
		if err := b.committer.do(ctx, a.size, a.stage); err != nil {
			return nil, err
		}
	}
	return a.results(b.db)
}

// prepare sorts the events by partition, finds duplicates, and encodes.
func (a *appending) prepare(db *database) error {
	for _, part := range a.split() {
		part.ownIDs(a.request.Events)
		sequences, check, err := part.p.known(db, part.ids)
		if err != nil {
			return err
		}
		part.check = check
		a.drop(part, sequences)
		if len(part.items) == 0 {
			continue
		}
		part.encode(a.request.Events)
		a.size += len(part.encoded.heads) + len(part.encoded.payloads)
		a.parts = append(a.parts, part)
	}
	return nil
}

// split returns a part for each partition, without the events whose ID came
// earlier in the batch.
func (a *appending) split() []*appendPart {
	var parts []*appendPart
	byPartition := make([]*appendPart, len(a.stream.partitions))
	events := a.request.Events
	for i := range events {
		part := byPartition[events[i].Partition]
		if part == nil {
			part = &appendPart{p: a.stream.partitions[events[i].Partition]}
			byPartition[events[i].Partition] = part
			parts = append(parts, part)
		}
		part.items = append(part.items, i)
	}
	for _, part := range parts {
		a.foldRepeats(part)
	}
	return parts
}

func (a *appending) foldRepeats(part *appendPart) {
	if len(part.items) == 1 {
		return
	}
	seen := make(map[string]int, len(part.items))
	kept := part.items[:0]
	for _, i := range part.items {
		id := a.request.Events[i].ID
		if first, repeated := seen[id]; repeated {
			a.outcomes[i] = appendOutcome{like: first + 1}
			continue
		}
		seen[id] = i
		kept = append(kept, i)
	}
	part.items = kept
}

// ownIDs copies the IDs, which outlive the call, into one string.
func (part *appendPart) ownIDs(events []rheo.Event) {
	n := 0
	for _, i := range part.items {
		n += len(events[i].ID)
	}
	var all strings.Builder
	all.Grow(n)
	for _, i := range part.items {
		all.WriteString(events[i].ID)
	}
	part.ids = make([]string, len(part.items))
	rest := all.String()
	for at, i := range part.items {
		n := len(events[i].ID)
		part.ids[at], rest = rest[:n], rest[n:]
	}
}

// drop takes the duplicates out of the part.
func (a *appending) drop(part *appendPart, sequences []int64) {
	kept := 0
	for at, i := range part.items {
		if sequences[at] > 0 {
			a.outcomes[i] = appendOutcome{sequence: sequences[at], duplicate: true}
			continue
		}
		part.items[kept], part.ids[kept] = i, part.ids[at]
		kept++
	}
	part.items, part.ids = part.items[:kept], part.ids[:kept]
}

func (part *appendPart) encode(events []rheo.Event) {
	const perHead = 48 // without the strings
	heads, payloads := 0, 0
	for _, i := range part.items {
		heads += perHead + len(events[i].ID) + len(events[i].Key) + len(events[i].Type)
		payloads += len(events[i].Payload)
	}
	part.encoded = encodedEvents{
		heads:    make([]byte, 0, heads),
		payloads: make([]byte, 0, payloads),
		ends:     make([]stretch, 0, len(part.items)),
		times:    make([]int64, 0, len(part.items)),
	}
	var scratch []byte
	for _, i := range part.items {
		scratch = part.encoded.add(&events[i], scratch)
	}
}

// stage gives the events their sequences, or refuses them all.
func (a *appending) stage(bt *batch) error {
	for _, part := range a.parts {
		if err := part.place(bt); err != nil {
			return err
		}
		if err := a.expect(part); err != nil {
			return err
		}
	}
	for _, part := range a.parts {
		part.note(a.outcomes)
		if part.fresh > 0 {
			bt.appendTo(part)
		}
	}
	bt.wake(a.stream)
	return nil
}

// place finds each event's sequence: the next one, or the one that it has.
func (part *appendPart) place(bt *batch) error {
	ids := &part.p.ids
	next := ids.last()
	part.sequences = make([]int64, len(part.ids))
	unchanged := !part.check.pending && part.check.through == next && part.check.changes == ids.changes
	for at, id := range part.ids {
		if !unchanged {
			sequence, err := part.p.held(bt.tx, id, part.check)
			if err != nil {
				return part.p.damagedIndex(bt.b.db, err)
			}
			if sequence > 0 {
				part.duplicate(at, sequence)
				continue
			}
		}
		next++
		part.sequences[at] = next
		part.fresh++
	}
	return nil
}

func (part *appendPart) duplicate(at int, sequence int64) {
	if part.duplicates == nil {
		part.duplicates = make([]bool, len(part.ids))
	}
	part.sequences[at], part.duplicates[at] = sequence, true
}

func (part *appendPart) isDuplicate(at int) bool {
	return len(part.duplicates) > 0 && part.duplicates[at]
}

// expect checks the expectation of the part's partition, if it has one and
// something would be appended.
func (a *appending) expect(part *appendPart) error {
	want, expected := a.request.Expected[part.p.number]
	if last := part.p.ids.last(); expected && part.fresh > 0 && want != last {
		return rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d; nothing was appended",
			part.p.number, a.stream.name, last, want)
	}
	return nil
}

func (part *appendPart) note(outcomes []appendOutcome) {
	for at, i := range part.items {
		outcomes[i] = appendOutcome{sequence: part.sequences[at], duplicate: part.isDuplicate(at)}
	}
}

// results describes the events, when they are durable.
func (a *appending) results(db *database) ([]rheo.AppendResult, error) {
	results := make([]rheo.AppendResult, len(a.outcomes))
	for i, o := range a.outcomes {
		if o.like > 0 {
			o = appendOutcome{sequence: a.outcomes[o.like-1].sequence, duplicate: true}
		}
		if !o.duplicate {
			results[i].Event = a.request.Events[i]
			results[i].Sequence = o.sequence
			continue
		}
		p := a.stream.partitions[a.request.Events[i].Partition]
		stored, err := p.load(db, make([]rheo.Event, 0, 1), o.sequence, o.sequence)
		if err != nil {
			return nil, err
		}
		if stored[0].ID != a.request.Events[i].ID {
			return nil, p.damagedIndex(db, errFormat)
		}
		results[i] = rheo.AppendResult{Event: stored[0], Duplicate: true}
	}
	return results, nil
}

// stagedEvents are the events that the batch under way adds to a partition.
type stagedEvents struct {
	parts []*appendPart
	size  int
}

// appendTo takes the fresh events of a part into the batch.
func (bt *batch) appendTo(part *appendPart) {
	p := part.p
	if len(p.staged.parts) == 0 {
		bt.partitions = append(bt.partitions, p)
	}
	p.staged.parts = append(p.staged.parts, part)
	p.staged.size += len(part.encoded.heads) + len(part.encoded.payloads)
	if part.duplicates == nil {
		p.ids.push(part.ids)
		return
	}
	for at, id := range part.ids {
		if !part.duplicates[at] {
			p.ids.push([]string{id})
		}
	}
}

// writeEvents writes what is staged for a partition, in blocks.
func (bt *batch) writeEvents(p *partition) error {
	bucket, err := bucketOf(bt.tx, p.events)
	if err != nil {
		return p.damaged(bt.b.db, p.ids.last(), err)
	}
	bucket.FillPercent = 1 // it only grows at its end
	w := blockWriter{
		builder: blockBuilder{limit: blockSize(p.staged.size)},
		arena:   bt.arena, p: p, bucket: bucket, sequence: p.high.Load(),
	}
	for _, part := range p.staged.parts {
		if err := w.add(part); err != nil {
			return err
		}
	}
	if err := w.put(); err != nil {
		return err
	}
	return bucket.SetSequence(uint64(w.sequence))
}

// blockWriter writes the blocks of one commit to a partition.
type blockWriter struct {
	builder  blockBuilder
	arena    *arena
	p        *partition
	bucket   *bbolt.Bucket
	sequence int64
}

func (w *blockWriter) add(part *appendPart) error {
	from := 0 // of the events that wait to be added together
	size := 0
	join := func(to int) {
		if from < to {
			w.builder.add(&part.encoded, from, to)
			w.sequence += int64(to - from)
		}
		from, size = to, 0
	}
	for at := range part.ids {
		if part.isDuplicate(at) {
			join(at)
			from = at + 1
			continue
		}
		n := part.encoded.size(at)
		if !w.builder.takes(at-from+1, size+n) {
			join(at)
			if err := w.put(); err != nil {
				return err
			}
		}
		size += n
	}
	join(len(part.ids))
	return nil
}

func (w *blockWriter) put() error {
	if w.builder.count == 0 {
		return nil
	}
	key := sequenceKey(w.sequence)
	return w.bucket.Put(key, w.builder.finish(w.p.events, key, w.arena))
}
