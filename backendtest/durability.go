package backendtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func durabilityCases() []testCase {
	cases := []testCase{
		{name: "the log survives", needs: []need{needsPartitions}, run: logSurvives},
		{name: "IDs and expectations survive", run: idsSurvive},
		{name: "groups and their configuration survive", needs: []need{needsPartitions}, run: groupsSurvive},
		{name: "frontier and holes survive", needs: []need{needsFrontier}, run: holesSurvive},
		{name: "attempts, reasons and delays survive", run: attemptsSurvive},
		{name: "dead letters survive", run: deadLettersSurvive},
		{name: "a lease is good, or its event is delivered again", run: leasesOrDelivery},
		{name: "poison by expiry dies over restarts", run: poisonOverRestarts},
		{name: "a replay survives", needs: []need{needsReplay}, run: replaySurvives},
		{name: "a reset comes to the original start", needs: []need{needsReplay}, run: originalStartSurvives},
		{name: "open and close again and again", run: openAgainAndAgain},
	}
	for i := range cases {
		cases[i].needs = append([]need{needsDurable}, cases[i].needs...)
	}
	return cases
}

func logSurvives(s *subject) {
	s.create(3)
	e := rheo.Event{
		ID: "e1", Key: "k", Type: "t", Metadata: map[string]string{"m": "v"}, Payload: []byte(`{"n":[1,0.1,"🚀"]}`), Pinned: true,
		Timestamp: time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC),
	}
	s.append(e)
	s.fill(1, 300)
	want, before := fmt.Sprintf("%+v", s.read(0)), s.snapshot()
	s.reopen()
	equal(s, "the event", fmt.Sprintf("%+v", s.read(0)), want)
	equal(s, "everything", s.snapshot(), before)
	s.fill(1, 2)
	log := s.read(1)
	equal(s, "events", len(log), 302)
	equal(s, "the last", log[301].ID, "1-302")
	s.selects("n.2", rheo.OpEq, "🚀", "e1")
}

func idsSurvive(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.reopen()
	r := s.append(on(0, "0-2", "new", "0-3")...)
	equal(s, "duplicate", r[0].Duplicate && r[2].Duplicate && !r[1].Duplicate, true)
	equal(s, "sequence", r[0].Sequence, 2)
	s.fails("expecting the wrong sequence", s.expecting(rheo.ExpectedSequence{0: 3}, event("e")), rheo.ErrConflict)
	s.noError(s.expecting(rheo.ExpectedSequence{0: 4}, event("e")))
	s.fails("creating the stream again", s.in.CreateStream(s.Context(), s.stream, rheo.StreamConfig{}), rheo.ErrAlreadyExists)
}

func groupsSurvive(s *subject) {
	s.create(3, "plain")
	s.fill(0, 4)
	s.group("g", rheo.GroupConfig{
		Start: rheo.StartEnd(), Partitions: []int{0, 2}, MaxAttempts: 2, Ordering: rheo.OrderingPartition,
	})
	before := s.snapshot()
	s.reopen()
	equal(s, "everything", s.snapshot(), before)
	s.fails("creating the group again", s.in.CreateGroup(s.Context(), s.stream, "g", rheo.GroupConfig{}), rheo.ErrAlreadyExists)
	s.fill(0, 2)
	s.fill(1, 1)
	l := s.fetchWith("g", rheo.FetchOptions{Max: 1})
	equalList(s, "event", idsOf(l), []string{"0-5"})
	equal(s, "second batch of an ordered partition", len(s.fetchWith("g", rheo.FetchOptions{Max: 1})), 0)
	s.nack("one", 0, l...)
	s.nack("two", 0, s.fetchWith("g", rheo.FetchOptions{Max: 1})...)
	equal(s, "dead letters", len(s.deadLetters("g")), 1)
}

func holesSurvive(s *subject) {
	s.create(1, "g")
	s.fill(0, 10)
	l := s.take("g", 1, 2, 3, 4, 5, 6, 7, 8)
	s.ack(l[0], l[1], l[3], l[6])
	s.reject("no", l[4])
	s.release(l[2], l[5], l[7])
	before := s.snapshot()
	s.reopen()
	equal(s, "everything", s.snapshot(), before)
	equal(s, "frontier", s.frontier("g"), 2)
	s.ack(s.due("g", 3, 6, 8, 9, 10)...)
	equal(s, "lag", s.lag("g"), 0)
}

func attemptsSurvive(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 3})
	s.fill(0, 3)
	l := s.take("g", 1, 2)
	s.nack("at once", 0, l[0])
	s.nack("later", time.Hour, l[1])
	s.reopen()
	again := s.due("g", 1, 3)[0]
	equal(s, "attempt", again.Attempt, 2)
	equal(s, "reason", again.LastReason, "at once")
	s.ack(again)
	s.clock.Advance(2 * time.Hour)
	s.reopen()
	again = s.due("g", 2, 3)[0]
	equal(s, "attempt", again.Attempt, 2)
	equal(s, "reason", again.LastReason, "later")
}

func deadLettersSurvive(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 3)
	l := s.take("g", 1, 2, 3)
	s.reject("rejected", l[0])
	s.nack("nacked", 0, l[1])
	s.ack(l[2])
	s.clock.Advance(time.Hour)
	before := fmt.Sprintf("%+v", s.deadLetters("g"))
	s.reopen()
	equal(s, "dead letters", fmt.Sprintf("%+v", s.deadLetters("g")), before)
	s.dead("g", 1, 2)
	equal(s, "lag", s.lag("g"), 0)
	s.clock.Advance(time.Hour)
	s.due("g")
}

// A restart may lose leases, but then their events must come again, and count.
func leasesOrDelivery(s *subject) {
	s.create(1, "g")
	s.fill(0, 4)
	old := s.take("g", 1, 2, 3, 4)
	s.reopen()
	settled := make(map[int64]bool)
	for _, l := range old[:2] {
		switch err := s.in.Ack(s.Context(), l); {
		case err == nil:
			settled[l.Sequence] = true
		case !errors.Is(err, rheo.ErrStaleLease):
			s.Fatalf("an ack of a lease from before: %v", err)
		}
	}
	s.expire()
	delivered := make(map[int64]bool)
	for _, l := range s.fetch("g", 10) {
		delivered[l.Sequence] = true
		if l.Attempt < 1 || l.Attempt > 2 {
			s.Fatalf("attempt %d of %d", l.Attempt, l.Sequence)
		}
		s.ack(l)
	}
	for sequence := int64(1); sequence <= 4; sequence++ {
		if settled[sequence] == delivered[sequence] {
			s.Fatalf("event %d: settled with its old lease: %v, delivered again: %v", sequence, settled[sequence], delivered[sequence])
		}
	}
	for _, l := range old {
		s.fails("an ack of an old lease", s.in.Ack(s.Context(), l), rheo.ErrStaleLease)
	}
	equal(s, "lag", s.lag("g"), 0)
}

// The process dies with every attempt: three of them, and no fourth.
func poisonOverRestarts(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 3})
	s.fill(0, 1)
	for attempt := 1; attempt <= 3; attempt++ {
		l := s.due("g", 1)[0]
		equal(s, "attempt", l.Attempt, attempt)
		s.reopen()
		s.expire()
	}
	s.due("g")
	s.reopen()
	s.due("g")
	equal(s, "attempts", s.dead("g", 1)[0].Attempts, 3)
	equal(s, "lag", s.lag("g"), 0)
}

func replaySurvives(s *subject) {
	s.finished(5)
	s.fill(0, 1)
	s.reject("no", s.take("g", 6)...)
	s.replay("g", rheo.ReplaySelection{IDs: []string{"0-2", "0-6"}})
	s.reopen()
	s.dead("g")
	s.ack(s.due("g", 2, 6)...)
	s.reset("g", rheo.ResetOptions{})
	s.reopen()
	s.ack(s.due("g", 1, 2, 3, 4, 5, 6)...)
}

func originalStartSurvives(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.group("g", rheo.GroupConfig{Start: rheo.StartEnd()})
	s.fill(0, 2)
	s.drain("g")
	s.reopen()
	s.reset("g", rheo.ResetOptions{})
	s.ack(s.due("g", 4, 5)...)
}

func openAgainAndAgain(s *subject) {
	s.create(1, "g")
	for round := range 8 {
		s.fill(0, 3)
		s.ack(s.take("g", int64(2*round+1), int64(2*round+2))...)
		s.reopen()
		equal(s, "events", len(s.read(0)), 3*round+3)
		equal(s, "lag", s.lag("g"), int64(round+1))
	}
	equal(s, "events", len(s.drain("g")), 8)
}
