package rheo

import (
	"context"
	"iter"
	"time"
)

// Query selects events of one stream. The zero value selects them all.
type Query struct {
	// Where holds conditions, all of which an event must meet.
	Where []Condition
	// Partitions limits the search. Empty means all.
	Partitions []int
	// From and To bound the timestamp: From inclusive, To exclusive. A zero time
	// does not bound.
	From, To time.Time
	// After and Until bound the sequence: After exclusive, Until inclusive. An
	// Until of 0 does not bound.
	After, Until int64
	// OrderBy says what the events are sorted by.
	OrderBy OrderBy
	// Descending turns the order round.
	Descending bool
	// Limit bounds how many events are returned: all together from
	// [Instance.Query] and [Instance.QueryAll] (0: no limit), for each page from
	// [Instance.QueryPage] (0: [DefaultPageSize]).
	Limit int
}

// DefaultPageSize is how many events or dead letters a page holds if its limit
// is 0.
const DefaultPageSize = 100

// OrderBy is the order of a query's events.
type OrderBy int

const (
	// BySequence sorts by partition, then sequence. Default.
	BySequence OrderBy = iota
	// ByTimestamp sorts by timestamp, then partition, then sequence.
	ByTimestamp
)

// Op compares an event's field with a value.
type Op string

// The operators. Equality is typed: "1" is not 1, and a missing field is not
// null. Numbers compare by value, whatever their notation, and strings by their
// bytes. An order comparison never holds between values of different types.
const (
	OpEq     Op = "="
	OpNe     Op = "!=" // the opposite of =, so it holds where the field is missing
	OpGt     Op = ">"
	OpGe     Op = ">="
	OpLt     Op = "<"
	OpLe     Op = "<="
	OpIn     Op = "in"     // equal to one of the values
	OpExists Op = "exists" // the field is there, null or not
)

// Condition compares one field of an event with a value.
//
// Path is id, type, key, partition, sequence or timestamp, the event's own
// fields; metadata.NAME, where NAME is the rest of the path as it stands; or a
// dotted path into the payload, with or without payload. in front. A segment of
// it names an object's key or, in an array, an index from 0; a dot or backslash
// that belongs to a key is written with a backslash before it. "payload" alone
// is the payload itself.
//
// Value is a JSON scalar: nil, a bool, a string, any Go number or a
// [json.Number]; for timestamp a [time.Time] or an RFC 3339 string; for
// [OpIn] a slice of these; for [OpExists] nothing. The fields key and type are
// always there, and exist where they are not empty.
type Condition struct {
	Path  string
	Op    Op
	Value any
}

// Where makes a [Condition].
func Where(path string, op Op, value any) Condition {
	return Condition{Path: path, Op: op, Value: value}
}

// Page is one page of a query.
type Page struct {
	Events []Event
	// Next continues after this page. It stays good when More is false: asked
	// again later, it brings what has been appended since.
	Next Cursor
	// More says that another page may hold something. A page may be short, even
	// empty, and still have More set, where a backend bounds the work of a call.
	More bool
}

// Cursor is a place between two pages. Its zero value is the beginning.
type Cursor struct {
	// After holds the last sequence returned of each partition that returned
	// one.
	After map[int]int64 `json:"after,omitempty"`
	// Last is the last event returned, of a query sorted by timestamp.
	Last *Position `json:"last,omitempty"`
}

// IsZero reports whether c is the beginning.
func (c Cursor) IsZero() bool { return len(c.After) == 0 && c.Last == nil }

// Position is an event's place in the order by timestamp.
type Position struct {
	Timestamp time.Time `json:"timestamp"`
	Partition int       `json:"partition"`
	Sequence  int64     `json:"sequence"`
}

// PositionOf returns the event's place in the order by timestamp.
func PositionOf(e *Event) Position {
	return Position{Timestamp: e.Timestamp, Partition: e.Partition, Sequence: e.Sequence}
}

// Compare returns -1, 0 or 1 as p lies before, at or behind q.
func (p Position) Compare(q Position) int {
	if c := p.Timestamp.Compare(q.Timestamp); c != 0 {
		return c
	}
	if p.Partition != q.Partition {
		return compareInts(int64(p.Partition), int64(q.Partition))
	}
	return compareInts(p.Sequence, q.Sequence)
}

// Read returns up to limit events of one partition with a sequence above after,
// in order. A limit of 0 means [DefaultPageSize]; the most is [MaxBatch].
func (i *Instance) Read(ctx context.Context, stream string, partition int, after int64, limit int) ([]Event, error) {
	if err := i.ready(ctx); err != nil {
		return nil, err
	}
	n, err := i.partitions(ctx, stream)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultPageSize
	}
	if err := checkRange("partition", int64(partition), 0, int64(n-1)); err != nil {
		return nil, err
	}
	if after < 0 {
		return nil, invalidf("after", "is %d, must not be negative", after)
	}
	if err := checkRange("limit", int64(limit), 1, MaxBatch); err != nil {
		return nil, err
	}
	return i.backend.Read(ctx, ReadRequest{Stream: stream, Partition: partition, After: after, Limit: limit})
}

// Query returns every event that the query selects, up to its limit. Where that
// may be many, [Instance.QueryAll] holds one page in memory at a time.
func (i *Instance) Query(ctx context.Context, stream string, q Query) ([]Event, error) {
	var events []Event
	for e, err := range i.QueryAll(ctx, stream, q) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// QueryPage returns one page. The same query goes on at the page's Next cursor;
// pages neither skip nor repeat an event, whatever is appended in between. A
// cursor of another kind of order is [ErrCursorNotFound].
func (i *Instance) QueryPage(ctx context.Context, stream string, q Query, after Cursor) (Page, error) {
	if q.Limit == 0 {
		q.Limit = DefaultPageSize
	}
	return i.queryPage(ctx, stream, q, after)
}

// QueryAll yields every event that the query selects, up to its limit, reading
// page by page. It ends after yielding an error. Leaving the loop early costs
// nothing.
func (i *Instance) QueryAll(ctx context.Context, stream string, q Query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		const pageSize = 500
		left := q.Limit
		var cursor Cursor
		for more := true; more; {
			page := q
			page.Limit = pageSize
			if q.Limit != 0 {
				page.Limit = min(left, pageSize)
			}
			found, err := i.queryPage(ctx, stream, page, cursor)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range found.Events {
				if !yield(e, nil) {
					return
				}
			}
			cursor, more = found.Next, found.More
			if left > 0 {
				left -= len(found.Events)
				more = more && left > 0
			}
		}
	}
}

func (i *Instance) queryPage(ctx context.Context, stream string, q Query, after Cursor) (Page, error) {
	if err := i.ready(ctx); err != nil {
		return Page{}, err
	}
	n, err := i.partitions(ctx, stream)
	if err != nil {
		return Page{}, err
	}
	filter, err := q.compile(n)
	if err != nil {
		return Page{}, err
	}
	if err := after.check(q.OrderBy, n); err != nil {
		return Page{}, err
	}
	return i.backend.Query(ctx, QueryRequest{Stream: stream, Filter: filter, Cursor: after, Limit: q.Limit})
}

func (c Cursor) check(order OrderBy, partitions int) error {
	if c.Last != nil && order != ByTimestamp || len(c.After) > 0 && order != BySequence {
		return Errorf(ErrCursorNotFound, "the cursor belongs to a query in another order")
	}
	for p := range c.After {
		if p < 0 || p >= partitions {
			return Errorf(ErrCursorNotFound, "the cursor names partition %d, the stream has %d", p, partitions)
		}
	}
	return nil
}
