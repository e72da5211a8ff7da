package backendtest

import (
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func replayRestartsAttempts(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 3)
	s.nack("again", 0, s.take("g", 1, 2, 3)...)
	l := s.take("g", 1, 2, 3)
	s.ack(l[0])
	s.nack("the last", 0, l[1])
	s.replay("g", rheo.ReplaySelection{FromSequence: 1}) // acked, dead and in flight
	for attempt := 1; attempt <= 2; attempt++ {
		again := s.take("g", 1, 2, 3)
		for _, l := range again {
			equal(s, "attempt", l.Attempt, attempt)
		}
		s.nack("again", 0, again...)
	}
	s.dead("g", 1, 2, 3)
}

func replayFencesItsRange(s *subject) {
	s.create(1, "g")
	s.fill(0, 6)
	l := s.take("g", 1, 2, 3, 4, 5, 6)
	s.ack(l[4])
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 4}), 3)
	for _, fenced := range l[3:] {
		s.refused(fmt.Sprint("a lease on ", fenced.Sequence), fenced, rheo.ErrStaleLease)
	}
	s.noError(s.renew(lease, l[0])[0].Err)
	s.ack(l[0], l[1])
	again := s.due("g", 4, 5, 6)
	s.refused("a lease from before the replay", l[3], rheo.ErrStaleLease)
	s.ack(append(again, l[2])...)
	equal(s, "lag", s.lag("g"), 0)
}

func replayOpensWhatWaits(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	l := s.take("g", 1, 2, 3)
	s.nack("much later", time.Hour, l...)
	s.due("g")
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{"0-2"}}), 1)
	again := s.due("g", 2)[0]
	equal(s, "attempt", again.Attempt, 1)
	equal(s, "reason", again.LastReason, "")
	s.clock.Advance(2 * time.Hour)
	s.due("g", 1, 2, 3)
}

func replayTouchesNoOtherGroup(s *subject) {
	s.create(1, "g", "other", "idle")
	s.fill(0, 4)
	s.drain("g")
	theirs := s.take("other", 1, 2, 3)
	s.reject("no", theirs[0])
	before := fmt.Sprintf("%+v %+v", s.info("other"), s.info("idle"))
	s.replay("g", rheo.ReplaySelection{FromSequence: 1})
	equal(s, "the other groups", fmt.Sprintf("%+v %+v", s.info("other"), s.info("idle")), before)
	s.dead("other", 1)
	s.ack(theirs[1:]...)
	s.due("other", 4)
	s.due("idle", 1, 2, 3, 4)
}

func replayAndLaterAppends(s *subject) {
	s.finished(4)
	s.fill(0, 2)
	s.replay("g", rheo.ReplaySelection{FromSequence: 3})
	s.fill(0, 2)
	s.ack(s.due("g", 3, 4, 5, 6, 7, 8)...)
	s.fill(0, 1)
	s.ack(s.due("g", 9)...)
	equal(s, "lag", s.lag("g"), 0)
}

func replayTakesDeadLetters(s *subject) {
	s.create(1, "g")
	s.fill(0, 6)
	s.reject("no", s.take("g", 1, 2, 3, 4, 5, 6)...)
	s.replay("g", rheo.ReplaySelection{FromSequence: 5})
	s.dead("g", 1, 2, 3, 4)
	s.replay("g", rheo.ReplaySelection{Query: &rheo.Query{Until: 1}})
	s.replay("g", rheo.ReplaySelection{IDs: []string{"0-3"}})
	s.dead("g", 2, 4)
	equal(s, "dead letters counted", s.info("g").DeadLetters, 2)
	s.ack(s.due("g", 1, 3, 5, 6)...)
	s.dead("g", 2, 4)
	equal(s, "lag", s.lag("g"), 0)
}

func replayedMayDieAgain(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 1)
	for round := range 3 {
		s.nack("first", 0, s.take("g", 1)...)
		s.clock.Advance(time.Minute)
		s.nack(fmt.Sprint("round ", round), 0, s.take("g", 1)...)
		d := s.dead("g", 1)[0]
		equal(s, "reason", d.Reason, fmt.Sprint("round ", round))
		equal(s, "attempts", d.Attempts, 2)
		s.near("time", d.DeadLetteredAt, s.clock.Now())
		equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{d.EventID}}), 1)
		s.dead("g")
	}
}
