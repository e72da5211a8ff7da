package backendtest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func deadLetterCases() []testCase {
	return []testCase{
		{name: "a dead letter carries its event", run: deadLetterCarriesItsEvent},
		{name: "pages have no cap", run: deadLetterPages},
		{name: "pages go by partition and sequence", needs: []need{needsPartitions}, run: deadLettersInOrder},
		{name: "the iterator goes through all, and may be left", run: deadLetterIterator},
		{name: "a group has its own", run: deadLettersOfAGroup},
		{name: "redriven by ID", needs: []need{needsReplay}, run: redrivenByID},
		{name: "an event acked after a nack is none", run: ackedIsNoDeadLetter},
		{name: "thousands that run out at once", run: thousandsRunOut},
	}
}

func deadLetterCarriesItsEvent(s *subject) {
	s.create(1, "g")
	e := event("e1")
	e.Key, e.Type, e.Metadata = "key", "type", map[string]string{"k": "v"}
	s.append(e)
	s.clock.Advance(time.Hour)
	s.nack("once", 0, s.take("g", 1)...)
	s.clock.Advance(time.Hour)
	s.reject("not for us", s.take("g", 1)...)
	want := s.read(0)[0]
	s.clock.Advance(time.Hour)
	d := s.dead("g", 1)[0]
	equal(s, "event ID", d.EventID, "e1")
	equal(s, "partition", d.Partition, 0)
	equal(s, "attempts", d.Attempts, 2)
	equal(s, "reason", d.Reason, "not for us")
	s.near("time", d.DeadLetteredAt, s.clock.Now().Add(-time.Hour))
	equal(s, "zone of the time", d.DeadLetteredAt.Location(), time.UTC)
	got, err := json.Marshal(d.Event)
	s.noError(err)
	wanted, err := json.Marshal(want)
	s.noError(err)
	s.sameJSON(got, string(wanted))
	equal(s, "dead letters counted", s.info("g").DeadLetters, 1)
}

// bury makes n dead letters in partition 0.
func (s *subject) bury(group string, n int) {
	s.Helper()
	s.fill(0, n)
	leases := s.fetch(group, n)
	equal(s, "leases", len(leases), n)
	for i := range leases {
		s.reject(fmt.Sprint("reason ", leases[i].Sequence), leases[i])
	}
}

func deadLetterPages(s *subject) {
	s.create(1, "g")
	const n = 250
	s.bury("g", n)
	for _, size := range []int{7, 100, 125, 250, 1000} {
		sequence := int64(0)
		var cursor rheo.Cursor
		for pages := 1; ; pages++ {
			page, err := s.in.DeadLettersPage(s.Context(), s.stream, "g", cursor, size)
			s.noError(err)
			if len(page.DeadLetters) > size || pages > 2*n {
				s.Fatalf("page %d of at most %d has %d dead letters", pages, size, len(page.DeadLetters))
			}
			for _, d := range page.DeadLetters {
				sequence++
				equal(s, "sequence", d.Sequence, sequence)
				equal(s, "reason", d.Reason, fmt.Sprint("reason ", sequence))
				equal(s, "event", d.Event.ID, name(0, sequence))
			}
			cursor = page.Next
			if !page.More {
				break
			}
		}
		equal(s, fmt.Sprint("dead letters by pages of ", size), sequence, n)
	}
	page, err := s.in.DeadLettersPage(s.Context(), s.stream, "g", rheo.Cursor{}, 0)
	s.noError(err)
	equal(s, "dead letters of a page without a limit", len(page.DeadLetters), rheo.DefaultPageSize)
	equal(s, "dead letters counted", s.info("g").DeadLetters, n)
}

func deadLettersInOrder(s *subject) {
	s.create(3, "g")
	for p := range 3 {
		s.fill(p, 5)
	}
	leases := s.fetch("g", 15)
	rng := s.random()
	rng.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	for _, l := range leases {
		s.reject("no", l)
	}
	var want, got []string
	for p := range 3 {
		for sequence := range int64(5) {
			want = append(want, name(p, sequence+1))
		}
	}
	var cursor rheo.Cursor
	for more := true; more; {
		page, err := s.in.DeadLettersPage(s.Context(), s.stream, "g", cursor, 4)
		s.noError(err)
		for _, d := range page.DeadLetters {
			got = append(got, d.EventID)
		}
		raw, err := json.Marshal(page.Next)
		s.noError(err)
		cursor, more = rheo.Cursor{}, page.More
		s.noError(json.Unmarshal(raw, &cursor))
	}
	equalList(s, "dead letters", got, want)
}

func deadLetterIterator(s *subject) {
	s.create(1, "g")
	equal(s, "dead letters at first", len(s.deadLetters("g")), 0)
	const n = 2*rheo.DefaultPageSize + 5
	s.bury("g", n)
	equal(s, "dead letters", len(s.deadLetters("g")), n)
	seen := 0
	for _, err := range s.in.DeadLetters(s.Context(), s.stream, "g") {
		s.noError(err)
		seen++
		if seen == 3 {
			break
		}
	}
	equal(s, "dead letters of a loop left early", seen, 3)
}

func deadLettersOfAGroup(s *subject) {
	s.create(1, "a", "b")
	s.fill(0, 3)
	s.reject("a's", s.take("a", 1, 2)...)
	s.reject("b's", s.take("b", 1)...)
	s.dead("a", 1, 2)
	equal(s, "reason", s.dead("b", 1)[0].Reason, "b's")
	s.dead("b", 1)
}

func redrivenByID(s *subject) {
	s.create(1, "g")
	s.fill(0, 5)
	s.reject("no", s.take("g", 1, 2, 3, 4, 5)...)
	for _, d := range s.deadLetters("g") {
		if d.Sequence%2 == 0 {
			equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{d.EventID}}), 1)
		}
	}
	s.dead("g", 1, 3, 5)
	l := s.due("g", 2, 4)
	equal(s, "attempt", l[0].Attempt, 1)
	s.ack(l[0])
	s.reject("still no", l[1])
	equal(s, "reason", s.dead("g", 1, 3, 4, 5)[2].Reason, "still no")
	equal(s, "lag", s.lag("g"), 0)
}

func ackedIsNoDeadLetter(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 1)
	s.nack("once", 0, s.take("g", 1)...)
	s.ack(s.take("g", 1)...)
	s.dead("g")
}

// A consumer dies with thousands of leases on their last attempt. None of them is
// handed out again, all of them become dead letters, and what lies behind comes.
func thousandsRunOut(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	n := s.scaled(3000)
	s.fill(0, n)
	equal(s, "leases", len(s.fetch("g", n)), n)
	s.expire()
	s.fill(0, 1)
	for fetches := 0; s.lag("g") > 0; fetches++ {
		for _, l := range s.fetchWith("g", rheo.FetchOptions{Max: 10}) {
			equal(s, "sequence", l.Sequence, int64(n+1))
			s.ack(l)
		}
		if fetches > n {
			s.Fatalf("after %d fetches the lag is still %d", fetches, s.lag("g"))
		}
	}
	equal(s, "dead letters", len(s.deadLetters("g")), n)
}
