package backendtest

import (
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func resetCases() []testCase {
	cases := []testCase{
		{name: "needs its confirmation", run: resetNeedsConfirm},
		{name: "to the beginning", run: resetToTheBeginning},
		{name: "to where the group was created to start", needs: []need{needsPartitions}, run: resetToOriginalStart},
		{name: "to another start", needs: []need{needsPartitions}, run: resetToAnotherStart},
		{name: "forgets attempts, delays and dead letters", run: resetForgets},
		{name: "fences every lease", run: resetFences},
		{name: "limited to partitions", needs: []need{needsPartitions}, run: resetOfPartitions},
		{name: "touches no other group and no event", run: resetTouchesNoOtherGroup},
		{name: "what is appended later still arrives", run: resetAndLaterAppends},
	}
	for i := range cases {
		cases[i].needs = append([]need{needsReplay}, cases[i].needs...)
	}
	return cases
}

func resetNeedsConfirm(s *subject) {
	s.finished(3)
	end := rheo.StartBeginning()
	for _, o := range []rheo.ResetOptions{{}, {Start: &end}, {Partitions: []int{0}}} {
		s.fails("a reset without Confirm", s.in.ResetGroup(s.Context(), s.stream, "g", o), rheo.ErrConfirmRequired)
	}
	equal(s, "lag", s.lag("g"), 0)
	s.due("g")
}

func resetToTheBeginning(s *subject) {
	s.finished(4)
	s.reset("g", rheo.ResetOptions{})
	s.at("g", 0, 0, 4)
	l := s.due("g", 1, 2, 3, 4)
	equal(s, "attempt", l[0].Attempt, 1)
	s.ack(l...)
	s.at("g", 0, 4, 0)
}

// The original start is the position that it came to when the group was created,
// not what the same words come to now.
func resetToOriginalStart(s *subject) {
	s.create(2)
	s.fill(0, 3)
	s.fill(1, 1)
	starts := map[string]rheo.Start{
		"end": rheo.StartEnd(), "time": rheo.StartTime(s.clock.Now().Add(time.Hour)), "each": rheo.StartAfterEach(map[int]int64{0: 3, 1: 1}),
	}
	for g, start := range starts {
		s.group(g, rheo.GroupConfig{Start: start})
	}
	s.clock.Advance(2 * time.Hour)
	s.fill(0, 2)
	s.fill(1, 2)
	for g := range starts {
		s.drain(g)
		s.reset(g, rheo.ResetOptions{})
		s.at(g, 0, 3, 2)
		s.at(g, 1, 1, 2)
		equalList(s, "events from "+g, sorted(s.drain(g)), []string{"0-4", "0-5", "1-2", "1-3"})
	}
}

func resetToAnotherStart(s *subject) {
	s.create(2, "g")
	s.fill(0, 4)
	s.fill(1, 4)
	s.drain("g")
	late := s.clock.Now().Add(time.Hour)
	for _, c := range []struct {
		start rheo.Start
		want  []string
	}{
		{rheo.StartAfter(3), []string{"0-4", "1-4"}},
		{rheo.StartAfterEach(map[int]int64{0: 4}), []string{"1-1", "1-2", "1-3", "1-4"}},
		{rheo.StartEnd(), nil},
		{rheo.StartTime(late), nil},
		{rheo.StartBeginning(), []string{"0-1", "0-2", "0-3", "0-4", "1-1", "1-2", "1-3", "1-4"}},
	} {
		s.reset("g", rheo.ResetOptions{Start: &c.start})
		equal(s, fmt.Sprintf("lag after a reset to %+v", c.start), s.lag("g"), int64(len(c.want)))
		equalList(s, fmt.Sprintf("events after a reset to %+v", c.start), sorted(s.drain("g")), c.want)
	}
	s.reset("g", rheo.ResetOptions{Start: &rheo.Start{Kind: rheo.StartKindEnd}})
	s.reset("g", rheo.ResetOptions{}) // where it was created to start, still
	equal(s, "lag", s.lag("g"), 8)
}

func resetForgets(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 4)
	l := s.take("g", 1, 2, 3)
	s.reject("no", l[0])
	s.nack("later", time.Hour, l[1])
	s.nack("again", 0, l[2])
	s.reset("g", rheo.ResetOptions{})
	s.dead("g")
	s.counts("after a reset", "g", 0, 0, 0)
	for _, l := range s.due("g", 1, 2, 3, 4) {
		equal(s, "attempt", l.Attempt, 1)
		equal(s, "reason", l.LastReason, "")
	}
	equal(s, "max attempts", s.info("g").MaxAttempts, 2)
}

func resetFences(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	old := s.take("g", 1, 2)
	s.reset("g", rheo.ResetOptions{})
	s.refused("a lease from before a reset", old[0], rheo.ErrStaleLease)
	fresh := s.due("g", 1, 2)
	s.refused("a lease from before a reset, its event taken again", old[1], rheo.ErrStaleLease)
	s.ack(fresh...)
}

func resetOfPartitions(s *subject) {
	s.create(3)
	s.group("g", rheo.GroupConfig{Partitions: []int{0, 1}})
	for p := range 3 {
		s.fill(p, 2)
	}
	var kept []*rheo.Lease
	for _, l := range s.fetch("g", 10) {
		if l.Partition == 0 && l.Sequence == 2 {
			kept = append(kept, l)
			continue
		}
		s.reject("no", l)
	}
	s.reset("g", rheo.ResetOptions{Partitions: []int{1}})
	equal(s, "dead letters left", len(s.deadLetters("g")), 1)
	s.ack(kept...)
	equalList(s, "events", s.drain("g"), []string{"1-1", "1-2"})
	err := s.in.ResetGroup(s.Context(), s.stream, "g", rheo.ResetOptions{Confirm: true, Partitions: []int{1, 2}})
	s.invalid("a partition of others", err, "partition")
	equal(s, "lag", s.lag("g"), 0)
}

func resetTouchesNoOtherGroup(s *subject) {
	s.create(1, "g", "other")
	s.fill(0, 3)
	s.drain("g")
	theirs := s.take("other", 1, 2)
	s.reject("no", theirs[0])
	before := fmt.Sprintf("%+v", s.info("other"))
	s.reset("g", rheo.ResetOptions{})
	equal(s, "the other group", fmt.Sprintf("%+v", s.info("other")), before)
	s.dead("other", 1)
	s.ack(theirs[1])
	s.due("other", 3)
	equal(s, "events", len(s.read(0)), 3)
}

func resetAndLaterAppends(s *subject) {
	s.finished(2)
	end := rheo.StartEnd()
	s.reset("g", rheo.ResetOptions{Start: &end})
	s.fill(0, 1)
	s.ack(s.due("g", 3)...)
	s.reset("g", rheo.ResetOptions{})
	s.fill(0, 1)
	s.ack(s.due("g", 1, 2, 3, 4)...)
	equal(s, "lag", s.lag("g"), 0)
}
