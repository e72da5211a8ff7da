package sqlite

import (
	"context"
	"database/sql"
	"iter"
	"math"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
)

// Query implements [rheo.Backend].
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	src := &source{stream: s, session: b.pool, where: conditionsOf(&r.Filter)}
	if r.Filter.OrderBy == rheo.ByTimestamp {
		return src.byTimestamp(ctx, r)
	}
	if src.high, err = s.highs(ctx, b.pool); err != nil {
		return rheo.Page{}, err
	}
	if err := src.findWindow(ctx, &r.Filter); err != nil {
		return rheo.Page{}, failure(reading, err)
	}
	return scan.Page(ctx, src, r)
}

// source is a stream as package scan reads it.
type source struct {
	stream  *stream
	session *session
	where   *conditions
	high    []int64
	window  map[int]bounds // by partition, where the filter's time lies; nil: anywhere
}

// bounds are the first and last sequence of something.
type bounds struct{ first, last int64 }

// findWindow asks the index by time where to look, if the filter's time bounds are
// so narrow that this is little work.
func (s *source) findWindow(ctx context.Context, f *rheo.Filter) error {
	if f.From.IsZero() && f.To.IsZero() {
		return nil
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !f.From.IsZero() {
		from = ceilMicro(f.From)
	}
	if !f.To.IsZero() {
		to = ceilMicro(f.To)
	}
	const narrow = 10_000
	window, events := make(map[int]bounds), 0
	err := s.session.each(ctx, "window", func(rows *sql.Rows) error {
		var first, last int64
		var n int
		err := rows.Scan(&first, &last, &n)
		partition, sequence := s.stream.at(first)
		window[partition] = bounds{sequence, last & maxSequence}
		events += n
		return err
	}, s.stream.id, from, to, narrow+1)
	if events <= narrow {
		s.window = window
	}
	return err
}

// chunkRows is how many events are read at a time. Between two chunks nothing is
// held open: a reader that goes on for long would keep the WAL from being reset.
const chunkRows = 500

func (s *source) High(_ context.Context, partition int) (int64, error) { return s.high[partition], nil }

func (s *source) Locate(ctx context.Context, partition int, id string) (int64, bool, error) {
	var place int64
	if _, err := s.session.one(ctx, "place-of-id", []any{&place}, id, s.stream.log(partition)); err != nil {
		return 0, false, failure(reading, err)
	}
	return place & maxSequence, true, nil
}

func (s *source) Walk(ctx context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	if s.window != nil {
		in := s.window[partition] // or nothing, which ends before it begins
		first, last = max(first, in.first), min(last, in.last)
	}
	query := "place BETWEEN ? AND ?" + s.where.sql.String() + " ORDER BY place"
	if descending {
		query += " DESC"
	}
	return func(yield func(*rheo.Event, error) bool) {
		for first <= last {
			args := append([]any{s.stream.place(partition, first), s.stream.place(partition, last)}, s.where.args...)
			events, err := s.chunk(ctx, query, args, chunkRows)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
			}
			if len(events) < chunkRows {
				return
			}
			if end := events[len(events)-1].Sequence; descending {
				last = end - 1
			} else {
				first = end + 1
			}
		}
	}
}

// chunk reads the events that the condition selects, which ends in an order.
func (s *source) chunk(ctx context.Context, condition string, args []any, limit int) ([]rheo.Event, error) {
	reader := newEventReader(s.stream)
	var events []rheo.Event
	err := s.session.eachText(ctx, s.session.texts["events"]+" "+condition+" LIMIT ?", func(rows *sql.Rows) error {
		e, err := reader.read(rows)
		events = append(events, e)
		return err
	}, append(args, limit)...)
	return events, failure(reading, err)
}

// byTimestamp walks the index by time, from the cursor on.
func (s *source) byTimestamp(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s.narrow(&r.Filter)
	page := rheo.Page{Next: r.Cursor}
	after := r.Cursor.Last
	size := min(max(r.Limit+1, chunkRows/4), chunkRows)
	for {
		events, err := s.nextByTimestamp(ctx, after, r.Filter.Descending, size)
		if err != nil {
			return rheo.Page{}, err
		}
		for i := range events {
			e := &events[i]
			if !r.Filter.Match(e) || r.Cursor.Last != nil && !behind(e, *r.Cursor.Last, r.Filter.Descending) {
				continue
			}
			if len(page.Events) == r.Limit {
				page.More = true
				return page, nil
			}
			page.Events = append(page.Events, *e)
			position := rheo.PositionOf(e)
			page.Next = rheo.Cursor{Last: &position}
		}
		if len(events) < size {
			return page, nil
		}
		last := rheo.PositionOf(&events[len(events)-1])
		after, size = &last, chunkRows
	}
}

// narrow adds what is not bounded by the place in this order.
func (s *source) narrow(f *rheo.Filter) {
	if len(f.Partitions) < s.stream.partitions {
		logs := make([]any, len(f.Partitions))
		for i, p := range f.Partitions {
			logs[i] = s.stream.log(p)
		}
		s.where.add("log IN ("+marks(len(logs))+")", logs...)
	}
	if f.After > 0 {
		s.where.add("place & ? > ?", maxSequence, f.After)
	}
	if f.Until < math.MaxInt64 {
		s.where.add("place & ? <= ?", maxSequence, f.Until)
	}
}

func (s *source) nextByTimestamp(ctx context.Context, after *rheo.Position, descending bool, limit int) ([]rheo.Event, error) {
	query := "stream_id = ?" + s.where.sql.String()
	args := append([]any{s.stream.id}, s.where.args...)
	compare, direction := ">", ""
	if descending {
		compare, direction = "<", " DESC"
	}
	if after != nil {
		query += " AND (timestamp, place) " + compare + " (?, ?)"
		args = append(args, after.Timestamp.UnixMicro(), s.stream.place(after.Partition, after.Sequence))
	}
	return s.chunk(ctx, query+" ORDER BY timestamp"+direction+", place"+direction, args, limit)
}

func behind(e *rheo.Event, last rheo.Position, descending bool) bool {
	order := rheo.PositionOf(e).Compare(last)
	return order > 0 && !descending || order < 0 && descending
}
