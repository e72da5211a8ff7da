package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}

// finds fails unless the query returns exactly the IDs, in that order if the
// backend sorts.
func (s *subject) finds(what string, q rheo.Query, ids string) {
	s.Helper()
	want := strings.Fields(ids)
	if !s.backend.Capabilities().Guarantees.OrderedScan {
		slices.Sort(want)
	}
	equalList(s, what, s.query(q), want)
}

func conditionsAreCombined(s *subject) {
	s.create(1)
	s.documents(`a {"n":1,"c":"x"}`, `b {"n":2,"c":"x"}`, `c {"n":3,"c":"y"}`, `d {"n":4,"c":"x"}`)
	x := rheo.Where("c", rheo.OpEq, "x")
	s.finds("two conditions", rheo.Query{Where: []rheo.Condition{x, rheo.Where("n", rheo.OpGt, 1)}}, "b d")
	s.finds("two on one field", rheo.Query{Where: []rheo.Condition{
		rheo.Where("n", rheo.OpGt, 1), rheo.Where("n", rheo.OpLe, 3), rheo.Where("n", rheo.OpNe, 3),
	}}, "b")
	s.finds("contradiction", rheo.Query{Where: []rheo.Condition{x, rheo.Where("c", rheo.OpEq, "y")}}, "")
	s.finds("with bounds", rheo.Query{Where: []rheo.Condition{x}, After: 1, Until: 3}, "b")
	s.finds("with an unknown field", rheo.Query{Where: []rheo.Condition{x, rheo.Where("z", rheo.OpExists, nil)}}, "")
	s.finds("none", rheo.Query{}, "a b c d")
}

func timeBounds(s *subject) {
	s.create(1)
	base := time.Date(2026, 1, 31, 23, 59, 59, 999_998_000, time.UTC)
	for i, id := range strings.Fields("a b c d") {
		e := event(id)
		e.Timestamp = base.Add(time.Duration(i) * time.Microsecond) // c is 1 February
		s.append(e)
	}
	february := base.Add(2 * time.Microsecond)
	s.finds("from is inclusive", rheo.Query{From: february}, "c d")
	s.finds("to is exclusive", rheo.Query{To: february}, "a b")
	s.finds("from and to", rheo.Query{From: base.Add(time.Microsecond), To: february}, "b")
	s.finds("an empty span", rheo.Query{From: february, To: february}, "")
	s.finds("another zone", rheo.Query{From: february.In(time.FixedZone("", 3600))}, "c d")
	s.finds("between microseconds", rheo.Query{From: february.Add(-1), To: february.Add(1)}, "c")
	s.finds("before everything", rheo.Query{To: base}, "")
	s.finds("wide", rheo.Query{From: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "a b c d")
}

func sequenceBounds(s *subject) {
	s.create(1)
	s.fill(0, 5)
	s.finds("after is exclusive", rheo.Query{After: 3}, "0-4 0-5")
	s.finds("until is inclusive", rheo.Query{Until: 2}, "0-1 0-2")
	s.finds("both", rheo.Query{After: 1, Until: 4}, "0-2 0-3 0-4")
	s.finds("an empty span", rheo.Query{After: 4, Until: 4}, "")
	s.finds("beyond the end", rheo.Query{After: 99}, "")
	s.finds("until beyond the end", rheo.Query{After: 4, Until: 1 << 62}, "0-5")
	if s.backend.Capabilities().Guarantees.OrderedScan {
		s.finds("descending", rheo.Query{After: 1, Until: 4, Descending: true}, "0-4 0-3 0-2")
	}
}

func queryPartitions(s *subject) {
	s.create(4)
	for p := range 4 {
		s.fill(p, 2)
	}
	s.finds("all", rheo.Query{}, "0-1 0-2 1-1 1-2 2-1 2-2 3-1 3-2")
	s.finds("one", rheo.Query{Partitions: []int{2}}, "2-1 2-2")
	s.finds("two, in any order", rheo.Query{Partitions: []int{3, 1}}, "1-1 1-2 3-1 3-2")
	s.finds("with a sequence bound", rheo.Query{Partitions: []int{0, 2}, After: 1}, "0-2 2-2")
	s.finds("with a condition", rheo.Query{Partitions: []int{0, 2}, Where: []rheo.Condition{rheo.Where("partition", rheo.OpGt, 0)}}, "2-1 2-2")
	s.finds("with a condition on an ID elsewhere", rheo.Query{Partitions: []int{0}, Where: []rheo.Condition{rheo.Where("id", rheo.OpEq, "2-1")}}, "")
}

// scattered appends events to three partitions whose order by timestamp is not
// that of the log, nor that of the timestamps' text in many notations.
func (s *subject) scattered() {
	s.Helper()
	s.create(3)
	at := func(partition int, id string, t time.Time) {
		e := on(partition, id)[0]
		e.Timestamp = t
		s.append(e)
	}
	day := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC) }
	at(0, "a", day(2, 1))
	at(0, "b", day(1, 31))
	at(1, "c", day(1, 31).Add(time.Microsecond))
	at(1, "d", day(1, 31))
	at(2, "e", day(10, 1))
	at(2, "f", time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC))
	at(0, "g", day(9, 30))
	at(2, "h", day(1, 31))
	at(0, "i", day(1, 31))
	at(1, "j", time.Date(12, 1, 1, 0, 0, 0, 0, time.UTC))
}

func queryOrder(s *subject) {
	s.scattered()
	s.finds("by sequence", rheo.Query{}, "a b g i c d j e f h")
	s.finds("by sequence, descending", rheo.Query{Descending: true}, "h f e j d c i g b a")
	s.finds("by timestamp", rheo.Query{OrderBy: rheo.ByTimestamp}, "j f b i d h c a g e")
	s.finds("by timestamp, descending", rheo.Query{OrderBy: rheo.ByTimestamp, Descending: true}, "e g a c h d i b f j")
	s.finds("by timestamp, within bounds", rheo.Query{
		OrderBy: rheo.ByTimestamp, Partitions: []int{2, 0}, After: 1, From: time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC),
	}, "f b i h g")
}

func queryLimit(s *subject) {
	s.create(1)
	total := 1200 // more than two of the pages that Query reads by
	s.fill(0, total)
	even := []rheo.Condition{rheo.Where("sequence", rheo.OpGt, 100)}
	for _, c := range []struct{ limit, want, wantWhere int }{
		{1, 1, 1}, {499, 499, 499}, {500, 500, 500}, {501, 501, 501}, {1199, 1199, 1100}, {1200, 1200, 1100}, {5000, 1200, 1100}, {0, 1200, 1100},
	} {
		equal(s, fmt.Sprint("events with limit ", c.limit), len(s.query(rheo.Query{Limit: c.limit})), c.want)
		equal(s, fmt.Sprint("selected with limit ", c.limit), len(s.query(rheo.Query{Where: even, Limit: c.limit})), c.wantWhere)
	}
	seen := 0
	for _, err := range s.in.QueryAll(s.Context(), s.stream, rheo.Query{}) {
		s.noError(err)
		seen++
		if seen == 3 {
			break
		}
	}
	equal(s, "events of a loop left early", seen, 3)
	page, err := s.in.QueryPage(s.Context(), s.stream, rheo.Query{}, rheo.Cursor{})
	s.noError(err)
	equal(s, "events of a page without a limit", len(page.Events), rheo.DefaultPageSize)
}
