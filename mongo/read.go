package mongo

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

// stretch is a range of sequences of a partition.
type stretch struct {
	partition int
	from, to  int64
}

// condition selects the commit documents that hold events of the stretch. None has
// more than a batch's events: so the last one ends no further behind.
func (s stretch) condition(stream string) bson.D {
	const longest = rheo.MaxBatch
	return bson.D{
		{Key: "stream", Value: stream},
		{Key: "partition", Value: s.partition},
		{Key: "last", Value: bson.D{{Key: "$gte", Value: s.from}, {Key: "$lt", Value: add(s.to, longest)}}},
		{Key: "first", Value: bson.D{{Key: "$lte", Value: s.to}}},
	}
}

// add does not overflow.
func add(a, b int64) int64 {
	if sum := a + b; sum > a {
		return sum
	}
	return 1<<63 - 1
}

// joined sorts stretches and joins those that touch.
func joined(all []stretch) []stretch {
	slices.SortFunc(all, func(x, y stretch) int {
		if x.partition != y.partition {
			return x.partition - y.partition
		}
		switch {
		case x.from < y.from:
			return -1
		case x.from > y.from:
			return 1
		}
		return 0
	})
	out := all[:0]
	for _, t := range all {
		if n := len(out); n > 0 && out[n-1].partition == t.partition && out[n-1].to+1 >= t.from {
			out[n-1].to = max(out[n-1].to, t.to)
			continue
		}
		out = append(out, t)
	}
	return out
}

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	want := stretch{r.Partition, add(r.After, 1), add(r.After, int64(r.Limit))}
	if r.After == 1<<63-1 {
		return nil, nil
	}
	found, err := b.documents(ctx, s, []stretch{want})
	if err != nil {
		return nil, err
	}
	var events []rheo.Event
	for _, c := range found {
		for sequence := max(c.First, want.from); sequence <= min(c.Last, want.to); sequence++ {
			events = append(events, c.event(sequence))
		}
	}
	if n := len(found); n > 0 {
		s.raise(r.Partition, found[n-1].Last)
	}
	return events, nil
}

// documents reads the commit documents that hold events of the stretches, by
// partition and sequence, in one command as far as an answer can hold them.
func (b *Backend) documents(ctx context.Context, s *stream, stretches []stretch) ([]*commit, error) {
	conditions, most := make(bson.A, len(stretches)), int64(0)
	for i, t := range stretches {
		conditions[i] = t.condition(s.name)
		most = add(most, add(t.to-t.from, 1))
	}
	o := options.Find().SetSort(bson.D{{Key: "partition", Value: 1}, {Key: "last", Value: 1}})
	if most < rheo.MaxBatch*10 {
		o.SetLimit(most).SetBatchSize(int32(most) + 1)
	}
	return b.find(ctx, either(conditions), o)
}

func (b *Backend) find(ctx context.Context, condition bson.D, o *options.FindOptionsBuilder) ([]*commit, error) {
	var found []*commit
	cursor, err := b.collections.log.Find(ctx, condition, o.SetProjection(withoutTerms))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	for _, c := range found {
		if !c.sound() {
			return nil, damaged(c)
		}
	}
	return found, nil
}

var withoutTerms = bson.D{{Key: "terms", Value: 0}}

func damaged(c *commit) error {
	return rheo.Errorf(rheo.ErrFailed, "the commit document %s is damaged", c.ID)
}

// shelf is commit documents at hand, by partition and sequence.
type shelf struct {
	stream *stream
	all    []*commit
}

func byPlace(x, y *commit) int {
	if x.Partition != y.Partition {
		return x.Partition - y.Partition
	}
	return byFirst(x, y.First)
}

func newShelf(s *stream, all []*commit) *shelf {
	slices.SortFunc(all, byPlace)
	return &shelf{stream: s, all: slices.CompactFunc(all, func(x, y *commit) bool { return byPlace(x, y) == 0 })}
}

// find returns the document that holds the sequence, or nil.
func (h *shelf) find(partition int, sequence int64) *commit {
	at, exactly := slices.BinarySearchFunc(h.all, sequence, func(c *commit, sequence int64) int {
		if c.Partition != partition {
			return c.Partition - partition
		}
		return byFirst(c, sequence)
	})
	if !exactly {
		at--
	}
	if at < 0 || h.all[at].Partition != partition || h.all[at].Last < sequence {
		return nil
	}
	return h.all[at]
}

// event returns the event of the sequence.
func (h *shelf) event(partition int, sequence int64) (rheo.Event, error) {
	c := h.find(partition, sequence)
	if c == nil {
		return rheo.Event{}, rheo.Errorf(rheo.ErrFailed, "event %d of partition %d of stream %q is missing from the log", sequence, partition, h.stream.name)
	}
	return c.event(sequence), nil
}

// load has the events of the stretches at hand: as far as it can from the documents
// given and those remembered, and with one command for the others.
func (b *Backend) load(ctx context.Context, s *stream, stretches []stretch, given ...*commit) (*shelf, error) {
	known, missing := b.recall(s, stretches, newShelf(s, given))
	if len(missing) == 0 {
		return newShelf(s, known), nil
	}
	found, err := b.documents(ctx, s, missing)
	if err != nil {
		return nil, err
	}
	if hostSession(ctx) == nil {
		for _, c := range found {
			b.commits.put(c)
		}
	}
	return newShelf(s, append(known, found...)), nil
}

// recall returns the documents of the stretches that are given or remembered, and
// the stretches of which one is not.
func (b *Backend) recall(s *stream, stretches []stretch, given *shelf) (known []*commit, missing []stretch) {
	for _, t := range stretches {
		for at := t.from; at <= t.to; {
			c := given.find(t.partition, at)
			if c == nil {
				c = b.commits.find(s.name, t.partition, at)
			}
			if c == nil {
				missing = append(missing, stretch{t.partition, at, t.to})
				break
			}
			known = append(known, c)
			at = c.Last + 1
		}
	}
	return known, missing
}
