package mongo

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

// byTime is a page's worth of a query sorted by timestamp. It takes the commit
// documents in the order of their oldest event or, descending, their newest, and
// keeps the events that come first: once a document begins behind all of these, so
// does whatever follows it.
type byTime struct {
	source
	best []rheo.Event
}

func (s *byTime) page(ctx context.Context) (rheo.Page, error) {
	if err := s.open(ctx); err != nil {
		return rheo.Page{}, err
	}
	for {
		if err := s.advance(ctx); err != nil {
			return rheo.Page{}, err
		}
		if s.over || s.full() && s.isBehind(s.ahead) {
			break
		}
		s.collect(s.ahead)
	}
	s.cut()
	page := rheo.Page{Events: s.best, Next: s.request.Cursor}
	if page.More = len(s.best) > s.request.Limit; page.More {
		page.Events = s.best[:s.request.Limit]
	}
	if n := len(page.Events); n > 0 {
		last := rheo.PositionOf(&page.Events[n-1])
		page.Next = rheo.Cursor{Last: &last}
	}
	return page, nil
}

func (s *byTime) open(ctx context.Context) error {
	f, batch := &s.request.Filter, min(s.request.Limit, largestBatch)+1
	condition := append(s.places(), narrow(f, s.b.schema.terms.Load())...)
	order := bson.D{{Key: "oldest", Value: 1}}
	if f.Descending {
		order = bson.D{{Key: "newest", Value: -1}}
	}
	if last := s.request.Cursor.Last; last != nil {
		condition = append(condition, s.behind(last)...)
	}
	cursor, err := s.b.collections.log.Find(ctx, bson.D{{Key: "$and", Value: parts(condition)}},
		options.Find().SetSort(order).SetBatchSize(int32(batch)).SetProjection(withoutTerms))
	if err != nil {
		return s.b.failure(err, reading)
	}
	s.cursor = cursor
	return nil
}

// parts are the conditions one by one: some may be on the same field.
func parts(condition bson.D) bson.A {
	all := make(bson.A, len(condition))
	for i, e := range condition {
		all[i] = bson.D{e}
	}
	return all
}

// behind selects the documents with events at or behind the place.
func (s *byTime) behind(last *rheo.Position) bson.D {
	at := last.Timestamp.UnixMicro()
	if s.request.Filter.Descending {
		return bson.D{{Key: "oldest", Value: bson.D{{Key: "$lte", Value: at}}}}
	}
	return bson.D{{Key: "newest", Value: bson.D{{Key: "$gte", Value: at}}}}
}

func (s *byTime) collect(c *commit) {
	f, last := &s.request.Filter, s.request.Cursor.Last
	for sequence := c.First; sequence <= c.Last; sequence++ {
		e := c.event(sequence)
		if (last == nil || s.order(rheo.PositionOf(&e), *last) > 0) && f.Match(&e) {
			s.best = append(s.best, e)
		}
	}
	if len(s.best) > 2*s.request.Limit {
		s.cut()
	}
}

// full reports whether there are enough events, and one more.
func (s *byTime) full() bool {
	if len(s.best) > s.request.Limit+1 {
		s.cut()
	}
	return len(s.best) > s.request.Limit
}

// cut sorts the events and cuts them to one more than the limit.
func (s *byTime) cut() {
	slices.SortFunc(s.best, func(a, b rheo.Event) int {
		return s.order(rheo.PositionOf(&a), rheo.PositionOf(&b))
	})
	s.best = s.best[:min(len(s.best), s.request.Limit+1)]
}

// isBehind reports whether all of the document comes after the events that are kept,
// which are sorted.
func (s *byTime) isBehind(c *commit) bool {
	worst := s.best[len(s.best)-1].Timestamp.UnixMicro()
	if s.request.Filter.Descending {
		return c.Newest < worst
	}
	return c.Oldest > worst
}

func (s *byTime) order(a, b rheo.Position) int {
	if s.request.Filter.Descending {
		return b.Compare(a)
	}
	return a.Compare(b)
}
