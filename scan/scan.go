// Package scan runs a [rheo.QueryRequest] on any store that can walk a
// partition. It is for those who write backends: one that cannot translate
// filters to its store's own language, or not all of them, supplies a [Source]
// and gets every operator, order and cursor as they should be.
package scan

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/rheo-go/rheo"
)

// Source is the log of one stream as a scan reads it.
type Source interface {
	// High returns the partition's last sequence.
	High(ctx context.Context, partition int) (int64, error)
	// Walk yields the events with first <= sequence <= last, ascending or
	// descending; last is at most what High returned. An event yielded may be
	// reused by the source for the next one. It ends after yielding an error.
	Walk(ctx context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error]
	// Locate returns the sequence of the ID, or 0 if the partition does not hold
	// it. ok is false if the source has no index by ID.
	Locate(ctx context.Context, partition int, id string) (sequence int64, ok bool, err error)
}

// Page runs the request.
func Page(ctx context.Context, src Source, r rheo.QueryRequest) (rheo.Page, error) {
	s := &search{src: src, filter: &r.Filter, cursor: r.Cursor, limit: r.Limit}
	if r.Filter.OrderBy == rheo.ByTimestamp {
		return s.byTimestamp(ctx)
	}
	return s.bySequence(ctx)
}

type search struct {
	src    Source
	filter *rheo.Filter
	cursor rheo.Cursor
	limit  int
}

// bySequence takes the partitions one after the other. The next cursor names,
// for each partition it has been to, how far the search came there.
func (s *search) bySequence(ctx context.Context) (rheo.Page, error) {
	page := rheo.Page{Next: rheo.Cursor{After: maps.Clone(s.cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	for _, p := range s.partitions() {
		first, last, err := s.bounds(ctx, p)
		if err != nil {
			return rheo.Page{}, err
		}
		for e, err := range s.candidates(ctx, p, first, last) {
			if err != nil {
				return rheo.Page{}, err
			}
			if !s.filter.Match(e) {
				continue
			}
			if len(page.Events) == s.limit {
				page.More = true
				return page, nil
			}
			page.Events = append(page.Events, e.Clone())
			page.Next.After[p] = e.Sequence
		}
		if first <= last {
			page.Next.After[p] = last
			if s.filter.Descending {
				page.Next.After[p] = first
			}
		}
	}
	return page, nil
}

func (s *search) partitions() []int {
	if !s.filter.Descending {
		return s.filter.Partitions
	}
	reversed := slices.Clone(s.filter.Partitions)
	slices.Reverse(reversed)
	return reversed
}

// bounds returns the sequences left to search in the partition.
func (s *search) bounds(ctx context.Context, partition int) (first, last int64, err error) {
	high, err := s.src.High(ctx, partition)
	if err != nil {
		return 0, 0, err
	}
	first, last = s.filter.After+1, min(high, s.filter.Until)
	if at, ok := s.cursor.After[partition]; ok {
		if s.filter.Descending {
			last = min(last, at-1)
		} else {
			first = max(first, at+1)
		}
	}
	return first, last, nil
}

// candidates yields what the filter may select: the events of the IDs it asks
// for, if it does and the source has an index, else all between the bounds.
func (s *search) candidates(ctx context.Context, partition int, first, last int64) iter.Seq2[*rheo.Event, error] {
	return func(yield func(*rheo.Event, error) bool) {
		if first > last {
			return
		}
		sequences, indexed, err := s.located(ctx, partition)
		if err != nil {
			yield(nil, err)
			return
		}
		if !indexed {
			s.walk(ctx, partition, first, last, yield)
			return
		}
		for _, sequence := range sequences {
			if sequence < first || sequence > last {
				continue
			}
			if !s.walk(ctx, partition, sequence, sequence, yield) {
				return
			}
		}
	}
}

// walk reports whether to go on. It looks at ctx now and then, since a source
// in memory never would.
func (s *search) walk(ctx context.Context, partition int, first, last int64, yield func(*rheo.Event, error) bool) bool {
	const every = 1024
	seen := 0
	for e, err := range s.src.Walk(ctx, partition, first, last, s.filter.Descending) {
		seen++
		if err == nil && seen%every == 0 && ctx.Err() != nil {
			err = rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended during a query")
		}
		if !yield(e, err) || err != nil {
			return false
		}
	}
	return true
}

// located resolves an equality or in-list on the ID through the source's index.
func (s *search) located(ctx context.Context, partition int) (sequences []int64, indexed bool, err error) {
	for _, p := range s.filter.Predicates {
		if p.Field != rheo.FieldID || p.Op != rheo.OpEq && p.Op != rheo.OpIn {
			continue
		}
		for _, v := range p.Values {
			id, isString := v.(string)
			if !isString {
				continue
			}
			sequence, ok, err := s.src.Locate(ctx, partition, id)
			if err != nil || !ok {
				return nil, false, err
			}
			if sequence > 0 {
				sequences = append(sequences, sequence)
			}
		}
		slices.Sort(sequences)
		sequences = slices.Compact(sequences)
		if s.filter.Descending {
			slices.Reverse(sequences)
		}
		return sequences, true, nil
	}
	return nil, false, nil
}

// byTimestamp walks everything and keeps the page's worth that comes first
// behind the cursor, so that a page costs one walk and bounded memory.
func (s *search) byTimestamp(ctx context.Context) (rheo.Page, error) {
	best := make([]rheo.Event, 0, min(2*s.limit+2, 4096))
	for _, p := range s.filter.Partitions {
		first, last, err := s.bounds(ctx, p)
		if err != nil {
			return rheo.Page{}, err
		}
		for e, err := range s.candidates(ctx, p, first, last) {
			if err != nil {
				return rheo.Page{}, err
			}
			if !s.behindCursor(e) || !s.filter.Match(e) {
				continue
			}
			best = append(best, e.Clone())
			if len(best) >= 2*s.limit+2 {
				best = s.first(best)
			}
		}
	}
	best = s.first(best)
	page := rheo.Page{Events: best, Next: s.cursor}
	if page.More = len(best) > s.limit; page.More {
		page.Events = best[:s.limit]
	}
	if n := len(page.Events); n > 0 {
		last := rheo.PositionOf(&page.Events[n-1])
		page.Next = rheo.Cursor{Last: &last}
	}
	return page, nil
}

// first sorts the events and cuts them to one more than the limit.
func (s *search) first(events []rheo.Event) []rheo.Event {
	slices.SortFunc(events, func(a, b rheo.Event) int {
		return s.order(rheo.PositionOf(&a), rheo.PositionOf(&b))
	})
	return events[:min(len(events), s.limit+1)]
}

func (s *search) behindCursor(e *rheo.Event) bool {
	return s.cursor.Last == nil || s.order(rheo.PositionOf(e), *s.cursor.Last) > 0
}

func (s *search) order(a, b rheo.Position) int {
	if s.filter.Descending {
		return b.Compare(a)
	}
	return a.Compare(b)
}
