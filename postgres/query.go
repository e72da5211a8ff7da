package postgres

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var (
	queryHighs = load("highs")
	queryHead  = load("query")
)

// Query implements [rheo.Backend]. The database selects, by a translation of the
// filter that lets through at least what matches; what it finds is matched again.
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	highs := make(map[int32]int64)
	err = b.look(ctx, s, func(batch *pgx.Batch) {
		clear(highs)
		batch.Queue(b.text(queryHighs), s.id).Query(intoMap(highs))
	})
	if err != nil {
		return rheo.Page{}, err
	}
	q := search{b: b, stream: s, request: &r, highs: highs, where: translate(&r.Filter)}
	if r.Filter.OrderBy == rheo.ByTimestamp {
		return q.byTimestamp(ctx)
	}
	return q.bySequence(ctx)
}

// search is one page's worth of a query.
type search struct {
	b       *Backend
	stream  *stream
	request *rheo.QueryRequest
	highs   map[int32]int64
	where   where
}

// span is what is left to look at in a partition.
type span struct {
	partition   int
	first, last int64
}

func (q *search) spans() []span {
	f, cursor := &q.request.Filter, q.request.Cursor.After
	spans := make([]span, 0, len(f.Partitions))
	for _, p := range f.Partitions {
		s := span{partition: p, first: 1, last: min(q.highs[int32(p)], f.Until)}
		if f.After < math.MaxInt64 {
			s.first = f.After + 1
		} else {
			s.last = 0
		}
		if at, ok := cursor[p]; ok && f.Descending {
			s.last = min(s.last, at-1)
		} else if ok {
			s.first = max(s.first, at+1)
		}
		spans = append(spans, s)
	}
	if f.Descending {
		slices.Reverse(spans)
	}
	return spans
}

// bySequence takes the partitions one after the other. The next cursor names,
// for each partition it has been to, how far the search came there.
func (q *search) bySequence(ctx context.Context) (rheo.Page, error) {
	page := rheo.Page{Next: rheo.Cursor{After: maps.Clone(q.request.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	spans := q.spans()
	err := inTurn(len(spans), func(from, to int) (more bool, err error) {
		left := q.request.Limit + 1 - len(page.Events)
		found, err := q.inPartitions(ctx, spans[from:to], left)
		if err != nil {
			return false, err
		}
		for i, s := range spans[from:to] {
			if more, err = q.takePartition(ctx, &page, s, found[i], left); err != nil || !more {
				return more, err
			}
		}
		return true, nil
	})
	return page, err
}

// takePartition adds what was found in a partition to the page, going on behind
// it as long as what the database let through did not match.
func (q *search) takePartition(ctx context.Context, page *rheo.Page, s span, found []rheo.Event, asked int) (more bool, err error) {
	if s.first > s.last {
		return true, nil
	}
	end := s.last
	if q.request.Filter.Descending {
		end = s.first
	}
	for {
		for i := range found {
			if !q.request.Filter.Match(&found[i]) {
				continue
			}
			if len(page.Events) == q.request.Limit {
				page.More = true
				return false, nil
			}
			page.Events = append(page.Events, found[i])
			page.Next.After[s.partition] = found[i].Sequence
		}
		if len(found) < asked {
			page.Next.After[s.partition] = end
			return true, nil
		}
		if at := found[len(found)-1].Sequence; q.request.Filter.Descending {
			s.last = at - 1
		} else {
			s.first = at + 1
		}
		asked = q.request.Limit + 1
		rest, err := q.inPartitions(ctx, []span{s}, asked)
		if err != nil {
			return false, err
		}
		found = rest[0]
	}
}

// inPartitions asks for up to limit events of each span, in one round trip.
func (q *search) inPartitions(ctx context.Context, spans []span, limit int) ([][]rheo.Event, error) {
	found := make([][]rheo.Event, len(spans))
	order := "e.sequence"
	if q.request.Filter.Descending {
		order = "e.sequence DESC"
	}
	err := q.b.trip(ctx, reading, func(batch *pgx.Batch) {
		batch.Queue(tuneStatement)
		for i, s := range spans {
			found[i] = nil
			if s.first > s.last {
				continue
			}
			w := q.where.clone()
			w.and("e.partition = %s::integer AND e.sequence BETWEEN %s::bigint AND %s::bigint", s.partition, s.first, s.last)
			batch.Queue(q.statement(&w, order, limit), w.arguments...).Query(func(rows pgx.Rows) error {
				return eachEvent(rows, q.stream.name, func(e rheo.Event) { found[i] = append(found[i], e) })
			})
		}
	})
	return found, err
}

// statement completes the query; everything that came from outside is in the
// arguments.
func (q *search) statement(w *where, order string, limit int) string {
	w.and("e.stream_id = %s::bigint", q.stream.id)
	return fmt.Sprintf("%s WHERE %s ORDER BY %s LIMIT %s::bigint", q.b.text(queryHead), w.sql, order, w.argument(limit))
}

// byTimestamp has the database sort.
func (q *search) byTimestamp(ctx context.Context) (rheo.Page, error) {
	f := &q.request.Filter
	page := rheo.Page{Next: q.request.Cursor}
	order, behind := "e.ts, e.partition, e.sequence", ">"
	if f.Descending {
		order, behind = "e.ts DESC, e.partition DESC, e.sequence DESC", "<"
	}
	for {
		w := q.where.clone()
		w.and("e.partition = ANY (%s::integer[]) AND e.sequence > %s::bigint AND e.sequence <= %s::bigint", f.Partitions, f.After, f.Until)
		if last := page.Next.Last; last != nil {
			w.and("(e.ts, e.partition, e.sequence) "+behind+" (%s::timestamptz, %s::integer, %s::bigint)",
				last.Timestamp, last.Partition, last.Sequence)
		}
		limit := q.request.Limit + 1
		var found []rheo.Event
		err := q.b.trip(ctx, reading, func(batch *pgx.Batch) {
			found = nil
			batch.Queue(q.statement(&w, order, limit), w.arguments...).Query(func(rows pgx.Rows) error {
				return eachEvent(rows, q.stream.name, func(e rheo.Event) { found = append(found, e) })
			})
		})
		if err != nil {
			return rheo.Page{}, err
		}
		for i := range found {
			if !f.Match(&found[i]) {
				continue
			}
			if len(page.Events) == q.request.Limit {
				page.More = true
				return page, nil
			}
			page.Events = append(page.Events, found[i])
			last := rheo.PositionOf(&found[i])
			page.Next = rheo.Cursor{Last: &last}
		}
		if len(found) < limit {
			return page, nil
		}
		last := rheo.PositionOf(&found[len(found)-1])
		page.Next = rheo.Cursor{Last: &last}
	}
}
