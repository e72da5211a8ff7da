package mongo

import (
	"context"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
)

// Query implements [rheo.Backend]. MongoDB selects the commit documents that may
// hold what the filter is after, in the order in which package scan, which decides,
// goes through the partitions: one command to know how far the log goes, and one
// cursor for the page. In the order by timestamp, the cursor is left as soon as
// nothing that comes first can follow.
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return rheo.Page{}, err
	}
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	src := source{b: b, stream: s, request: &r}
	if r.Filter.OrderBy == rheo.ByTimestamp {
		sorted := &byTime{source: src}
		defer sorted.close(ctx)
		return sorted.page(ctx)
	}
	if err := b.lookAtTails(ctx, s); err != nil {
		return rheo.Page{}, err
	}
	defer src.close(ctx)
	return scan.Page(ctx, &src, r)
}

// largestBatch bounds how many documents an answer of the server brings: no more
// than the page may need.
const largestBatch = 1000

// source is a stream as package scan reads it: one cursor over all partitions.
type source struct {
	b       *Backend
	stream  *stream
	request *rheo.QueryRequest
	cursor  *mongo.Cursor
	ahead   *commit // of a partition that comes later
	over    bool
}

func (s *source) close(ctx context.Context) {
	if s.cursor != nil {
		_ = s.cursor.Close(ctx) // the server forgets it in any case
	}
}

// High implements [scan.Source].
func (s *source) High(_ context.Context, partition int) (int64, error) {
	return s.stream.tail(partition), nil
}

// Locate implements [scan.Source]: the IDs are among what MongoDB selects by.
func (s *source) Locate(context.Context, int, string) (sequence int64, ok bool, err error) {
	return 0, false, nil
}

// Walk implements [scan.Source]. It is called at most once for a partition, in the
// order in which the cursor has them.
func (s *source) Walk(ctx context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	return func(yield func(*rheo.Event, error) bool) {
		for {
			c, err := s.next(ctx, partition)
			if err != nil {
				yield(nil, err)
				return
			}
			if c == nil {
				return
			}
			if !eachEvent(c, max(first, c.First), min(last, c.Last), descending, yield) {
				return
			}
		}
	}
}

// eachEvent yields the events of the document between the sequences.
func eachEvent(c *commit, first, last int64, descending bool, yield func(*rheo.Event, error) bool) bool {
	for n := range last - first + 1 {
		sequence := first + n
		if descending {
			sequence = last - n
		}
		if e := c.event(sequence); !yield(&e, nil) {
			return false
		}
	}
	return true
}

// next returns the next document of the partition, or nil.
func (s *source) next(ctx context.Context, partition int) (*commit, error) {
	if s.cursor == nil {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	for {
		if s.ahead == nil && !s.over {
			if err := s.advance(ctx); err != nil {
				return nil, err
			}
		}
		if s.ahead == nil || s.later(s.ahead.Partition, partition) {
			return nil, nil
		}
		c := s.ahead
		s.ahead = nil
		if c.Partition == partition {
			return c, nil
		}
	}
}

func (s *source) later(a, b int) bool {
	if s.request.Filter.Descending {
		return a < b
	}
	return a > b
}

func (s *source) advance(ctx context.Context) error {
	if !s.cursor.Next(ctx) {
		s.over = true
		return s.b.failure(s.cursor.Err(), reading)
	}
	c := new(commit)
	if err := s.cursor.Decode(c); err != nil {
		return s.b.failure(err, reading)
	}
	if !c.sound() {
		return damaged(c)
	}
	s.ahead = c
	return nil
}

func (s *source) open(ctx context.Context) error {
	f, direction := &s.request.Filter, 1
	if f.Descending {
		direction = -1
	}
	by, narrowed := "last", narrow(f, s.b.schema.terms.Load())
	if len(narrowed) > 0 {
		by = "first" // the same order, and that in which the other indexes have it
	}
	cursor, err := s.b.collections.log.Find(ctx, append(s.places(), narrowed...), options.Find().
		SetSort(bson.D{{Key: "partition", Value: direction}, {Key: by, Value: direction}}).
		SetBatchSize(int32(min(s.request.Limit, largestBatch)+1)).SetProjection(withoutTerms))
	if err != nil {
		return s.b.failure(err, reading)
	}
	s.cursor = cursor
	return nil
}

// places selects by partition and sequence.
func (s *source) places() bson.D {
	f, after := &s.request.Filter, s.request.Cursor.After
	var asked bson.A
	var rest []int
	for _, p := range f.Partitions {
		at, ok := after[p]
		if !ok {
			rest = append(rest, p)
			continue
		}
		first, last := f.After, f.Until
		if f.Descending {
			last = min(last, at-1)
		} else {
			first = max(first, at)
		}
		asked = append(asked, s.between(bson.E{Key: "partition", Value: p}, first, last))
	}
	if len(rest) > 0 {
		asked = append(asked, s.between(bson.E{Key: "partition", Value: bson.D{{Key: "$in", Value: rest}}}, f.After, f.Until))
	}
	return either(asked)
}

// between bounds both ends of the documents, so that every index has its bounds.
func (s *source) between(partitions bson.E, after, until int64) bson.D {
	const longest = rheo.MaxBatch
	first, last := bson.D{{Key: "$gt", Value: after - longest}}, bson.D{{Key: "$gt", Value: after}}
	if until < math.MaxInt64 {
		first = append(first, bson.E{Key: "$lte", Value: until})
		last = append(last, bson.E{Key: "$lt", Value: add(until, longest)})
	}
	return bson.D{{Key: "stream", Value: s.stream.name}, partitions, {Key: "last", Value: last}, {Key: "first", Value: first}}
}
