package backendtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func pagingCases() []testCase {
	return []testCase{
		{name: "pages, iterator and whole agree", needs: []need{needsPartitions}, run: pagesAgree},
		{name: "descending pages end", run: descendingPagesEnd},
		{name: "pages neither skip nor repeat while events are appended", needs: []need{needsPartitions}, run: pagesWhileAppending},
		{name: "pages neither skip nor repeat beside concurrent writers", needs: []need{needsPartitions}, run: pagesBesideWriters},
		{name: "a finished cursor brings what came later", needs: []need{needsPartitions}, run: finishedCursorResumes},
		{name: "a cursor survives JSON", needs: []need{needsPartitions}, run: cursorSurvivesJSON},
		{name: "a foreign cursor is told", needs: []need{needsPartitions}, run: foreignCursor},
		{name: "read pages through a long partition", run: readPagesThrough},
	}
}

// pages asks for page after page until there are no more, calling between with
// how many there were.
func (s *subject) pages(q rheo.Query, between func(pages int)) []string {
	s.Helper()
	var ids []string
	var cursor rheo.Cursor
	for n := 1; ; n++ {
		page, err := s.in.QueryPage(s.Context(), s.stream, q, cursor)
		s.noError(err)
		if len(page.Events) > q.Limit {
			s.Fatalf("a page of at most %d has %d events", q.Limit, len(page.Events))
		}
		ids = append(ids, eventIDs(page.Events)...)
		cursor = page.Next
		if !page.More {
			return ids
		}
		if n > 10_000 {
			s.Fatalf("after %d pages there are still more", n)
		}
		between(n)
	}
}

func sortings() map[string]rheo.Query {
	return map[string]rheo.Query{
		"by sequence":              {},
		"by sequence, descending":  {Descending: true},
		"by timestamp":             {OrderBy: rheo.ByTimestamp},
		"by timestamp, descending": {OrderBy: rheo.ByTimestamp, Descending: true},
	}
}

func pagesAgree(s *subject) {
	s.scattered()
	s.fill(1, 3)
	s.fill(0, 2)
	for name, q := range sortings() {
		for _, where := range [][]rheo.Condition{nil, {rheo.Where("id", rheo.OpGt, "c")}, {rheo.Where("id", rheo.OpEq, "none")}} {
			q.Where, q.Limit = where, 0
			whole := s.query(q)
			var iterated []string
			for e, err := range s.in.QueryAll(s.Context(), s.stream, q) {
				s.noError(err)
				iterated = append(iterated, e.ID)
			}
			for _, size := range []int{1, 2, 7, 100} {
				q.Limit = size
				paged := s.pages(q, func(int) {})
				if !s.backend.Capabilities().Guarantees.OrderedScan {
					slices.Sort(paged)
					slices.Sort(iterated)
				}
				equalList(s, fmt.Sprintf("%s, pages of %d", name, size), paged, whole)
			}
			equalList(s, name+", the iterator", iterated, whole)
		}
	}
}

func descendingPagesEnd(s *subject) {
	s.create(1)
	s.fill(0, 10)
	for _, order := range []rheo.OrderBy{rheo.BySequence, rheo.ByTimestamp} {
		for _, size := range []int{1, 3, 5, 10, 11} {
			q := rheo.Query{OrderBy: order, Descending: true, Limit: size}
			ids := s.pages(q, func(int) {})
			equal(s, "events", len(ids), 10)
			equal(s, "last event", ids[9], "0-1")
		}
	}
}

// What stood in the log when the paging began comes exactly once, however much is
// appended between two pages, and nothing at all comes twice.
func pagesWhileAppending(s *subject) {
	s.create(3)
	for p := range 3 {
		s.fill(p, 6)
	}
	for name, q := range sortings() {
		q.Limit = 4
		before := s.query(rheo.Query{})
		ids := s.pages(q, func(page int) {
			if page > 4 {
				return
			}
			s.clock.Advance(time.Second)
			s.fill(page%3, 2)
			early := on((page+1)%3, fmt.Sprintf("%s %d", name, page))
			early[0].Timestamp = time.Date(2001, 1, page, 0, 0, 0, 0, time.UTC)
			s.append(early...)
		})
		s.eachOnce(name, ids, before)
	}
}

// eachOnce fails if an ID is twice among those got, or if one that was wanted is
// not among them.
func (s *subject) eachOnce(what string, got, wanted []string) {
	s.Helper()
	seen := make(map[string]int)
	for _, id := range got {
		seen[id]++
		if seen[id] > 1 {
			s.Fatalf("%s: %q came twice", what, id)
		}
	}
	for _, id := range wanted {
		if seen[id] == 0 {
			s.Fatalf("%s: %q never came", what, id)
		}
	}
}

// Pages in the order of the log are read while writers append, until everything
// is written: then each event must have come, once.
func pagesBesideWriters(s *subject) {
	s.create(2)
	const writers = 3
	each := s.scaled(60)
	var writing atomic.Int32
	writing.Store(writers)
	var got []string
	s.together(writers+1, func(who int) error {
		if who == writers {
			var err error
			got, err = s.pageOn(func() bool { return writing.Load() > 0 })
			return err
		}
		defer writing.Add(-1)
		for i := range each {
			if _, err := s.in.Append(s.Context(), s.stream, on(i%2, fmt.Sprintf("%d-%d", who, i))...); err != nil {
				return err
			}
		}
		return nil
	})
	equal(s, "events", len(got), writers*each)
	s.eachOnce("paging beside writers", got, s.query(rheo.Query{}))
}

// pageOn pages through the stream as long as more may come, and then to its end.
func (s *subject) pageOn(more func() bool) ([]string, error) {
	var ids []string
	var cursor rheo.Cursor
	for last := false; ; last = last || !more() {
		page, err := s.in.QueryPage(s.Context(), s.stream, rheo.Query{Limit: 5}, cursor)
		if err != nil {
			return nil, err
		}
		ids = append(ids, eventIDs(page.Events)...)
		cursor = page.Next
		if last && !page.More {
			return ids, nil
		}
	}
}

func finishedCursorResumes(s *subject) {
	s.create(3)
	s.fill(0, 3)
	s.fill(1, 2)
	var cursor rheo.Cursor
	next := func() []string {
		var ids []string
		for {
			page, err := s.in.QueryPage(s.Context(), s.stream, rheo.Query{Limit: 4}, cursor)
			s.noError(err)
			ids = append(ids, eventIDs(page.Events)...)
			cursor = page.Next
			if !page.More {
				return sorted(ids)
			}
		}
	}
	equalList(s, "first round", next(), []string{"0-1", "0-2", "0-3", "1-1", "1-2"})
	equal(s, "nothing new", len(next()), 0)
	s.fill(0, 1)
	s.fill(2, 1)
	equalList(s, "what came later", next(), []string{"0-4", "2-1"})
	s.fill(1, 5)
	equalList(s, "and later still", next(), []string{"1-3", "1-4", "1-5", "1-6", "1-7"})
	equal(s, "and no more", len(next()), 0)
}

func cursorSurvivesJSON(s *subject) {
	s.scattered()
	for name, q := range sortings() {
		whole := s.query(q)
		q.Limit = 3
		var ids []string
		var cursor rheo.Cursor
		for more := true; more; {
			page, err := s.in.QueryPage(s.Context(), s.stream, q, cursor)
			s.noError(err)
			ids = append(ids, eventIDs(page.Events)...)
			more = page.More
			raw, err := json.Marshal(page.Next)
			s.noError(err)
			cursor = rheo.Cursor{}
			s.noError(json.Unmarshal(raw, &cursor))
		}
		s.eachOnce(name, ids, whole)
		equal(s, name, len(ids), len(whole))
	}
}

func foreignCursor(s *subject) {
	s.create(2, "g")
	s.fill(0, 3)
	last := rheo.Cursor{Last: &rheo.Position{Timestamp: s.clock.Now(), Sequence: 1}}
	after := rheo.Cursor{After: map[int]int64{0: 1}}
	outside := rheo.Cursor{After: map[int]int64{2: 1}}
	for _, c := range []struct {
		what   string
		query  rheo.Query
		cursor rheo.Cursor
	}{
		{"a timestamp's cursor by sequence", rheo.Query{}, last},
		{"a sequence's cursor by timestamp", rheo.Query{OrderBy: rheo.ByTimestamp}, after},
		{"a partition that is not there", rheo.Query{}, outside},
		{"a negative partition", rheo.Query{}, rheo.Cursor{After: map[int]int64{-1: 1}}},
	} {
		_, err := s.in.QueryPage(s.Context(), s.stream, c.query, c.cursor)
		s.fails(c.what, err, rheo.ErrCursorNotFound)
	}
	for _, cursor := range []rheo.Cursor{last, outside} {
		_, err := s.in.DeadLettersPage(s.Context(), s.stream, "g", cursor, 10)
		s.fails("dead letters by a foreign cursor", err, rheo.ErrCursorNotFound)
	}
}

func readPagesThrough(s *subject) {
	s.create(1)
	n := s.scaled(3000)
	s.fill(0, n)
	var got []string
	for after := int64(0); ; {
		events, err := s.in.Read(s.Context(), s.stream, 0, after, 130)
		s.noError(err)
		if len(events) == 0 {
			break
		}
		got = append(got, eventIDs(events)...)
		after = events[len(events)-1].Sequence
	}
	equal(s, "events", len(got), n)
	s.eachOnce("reading page by page", got, s.query(rheo.Query{}))
}
