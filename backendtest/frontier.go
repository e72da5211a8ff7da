package backendtest

import (
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func frontierCases() []testCase {
	return []testCase{
		{name: "a hole holds the frontier", needs: []need{needsFrontier}, run: holeHoldsTheFrontier},
		{name: "the order of acks does not matter", needs: []need{needsFrontier}, run: orderOfAcks},
		{name: "a reject moves the frontier", needs: []need{needsFrontier}, run: rejectMovesTheFrontier},
		{name: "an open delivery holds the frontier", needs: []need{needsFrontier}, run: openDeliveryHolds},
		{name: "lag for each partition and in all", needs: []need{needsFrontier, needsPartitions}, run: lagOfPartitions},
		{name: "in flight, waiting and dead letters are counted", run: deliveriesAreCounted},
		{name: "the cursor is the highest sequence offered", run: cursorIsHighestOffered},
		{name: "the age of the oldest unacked event", needs: []need{needsFrontier, needsPartitions}, run: ageOfTheOldest},
		{name: "many holes lose nothing", run: manyHoles},
	}
}

func holeHoldsTheFrontier(s *subject) {
	s.create(1, "g")
	s.fill(0, 5)
	l := s.take("g", 1, 2, 3, 4, 5)
	for _, c := range []struct {
		ack      int
		frontier int64
	}{{1, 1}, {3, 1}, {5, 1}, {2, 3}, {4, 5}} {
		s.ack(l[c.ack-1])
		equal(s, fmt.Sprint("frontier after the ack of ", c.ack), s.frontier("g"), c.frontier)
		equal(s, "lag", s.lag("g"), 5-c.frontier)
	}
}

func orderOfAcks(s *subject) {
	s.create(1, "g")
	n := s.scaled(100)
	s.fill(0, n)
	leases := s.fetch("g", n)
	rng := s.random()
	rng.Shuffle(n, func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	done := make(map[int64]bool)
	want := int64(0)
	for _, l := range leases {
		if rng.IntN(2) == 0 {
			s.ack(l)
		} else {
			s.reject("no", l)
		}
		done[l.Sequence] = true
		for done[want+1] {
			want++
		}
		equal(s, "frontier", s.frontier("g"), want)
	}
	equal(s, "lag", s.lag("g"), 0)
}

func rejectMovesTheFrontier(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 3)
	l := s.take("g", 1, 2, 3)
	s.reject("no", l[0])
	equal(s, "frontier after a reject", s.frontier("g"), 1)
	s.nack("the last", 0, l[1])
	equal(s, "frontier after a nack of the last attempt", s.frontier("g"), 2)
	s.expire()
	s.due("g")
	equal(s, "frontier after the last attempt ran out", s.frontier("g"), 3)
}

func openDeliveryHolds(s *subject) {
	s.create(1, "g")
	s.fill(0, 4)
	l := s.take("g", 1, 2, 3, 4)
	s.ack(l[0], l[3])
	s.nack("later", time.Minute, l[1])
	s.release(l[2])
	equal(s, "frontier before a nacked event", s.frontier("g"), 1)
	s.clock.Advance(time.Hour)
	equal(s, "frontier once its delay is over", s.frontier("g"), 1)
	l = s.take("g", 2, 3)
	s.ack(l[0])
	equal(s, "frontier before a leased event", s.frontier("g"), 2)
	s.expire()
	equal(s, "frontier before an expired one", s.frontier("g"), 2)
	s.ack(l[1])
	equal(s, "frontier", s.frontier("g"), 4)
}

func lagOfPartitions(s *subject) {
	s.create(3, "g")
	s.fill(0, 4)
	s.fill(2, 2)
	for _, l := range s.fetch("g", 10) {
		if l.Partition == 2 || l.Sequence != 2 {
			s.ack(l)
		}
	}
	s.fill(1, 3)
	lag, err := s.in.Lag(s.Context(), s.stream, "g")
	s.noError(err)
	equal(s, "stream and group", lag.Stream+lag.Group, s.stream+"g")
	equalList(s, "partitions", lag.Partitions, []rheo.PartitionLag{
		{Partition: 0, Frontier: 1, HighWatermark: 4, Lag: 3},
		{Partition: 1, Frontier: 0, HighWatermark: 3, Lag: 3},
		{Partition: 2, Frontier: 2, HighWatermark: 2, Lag: 0},
	})
	equal(s, "lag", lag.Lag, 6)
}

// counts checks what a group says of partition 0.
func (s *subject) counts(what, group string, inFlight, waiting, dead int64) {
	s.Helper()
	info := s.info(group)
	equal(s, "in flight "+what, info.InFlight(), inFlight)
	equal(s, "waiting "+what, info.Waiting(), waiting)
	equal(s, "dead letters "+what, info.DeadLetters, dead)
	equal(s, "dead letters listed "+what, len(s.deadLetters(group)), int(dead))
}

func deliveriesAreCounted(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 10)
	s.counts("at first", "g", 0, 0, 0)
	l := s.take("g", 1, 2, 3, 4, 5, 6)
	s.counts("after a fetch", "g", 6, 0, 0)
	s.ack(l[0])
	s.counts("after an ack", "g", 5, 0, 0)
	s.nack("later", time.Hour, l[1])
	s.counts("after a delayed nack", "g", 4, 1, 0)
	s.nack("now", 0, l[2])
	s.release(l[3])
	s.counts("after a nack and a release", "g", 2, 3, 0)
	s.reject("no", l[4])
	s.counts("after a reject", "g", 1, 3, 1)
	s.expire()
	s.counts("after an expiry", "g", 0, 4, 1)
	s.renew(lease, l[5])
	s.counts("after a late renewal", "g", 1, 3, 1)
	s.expire()
	s.take("g", 3, 4, 6)
	s.counts("after a fetch of what waited", "g", 3, 1, 1)
	s.expire()
	s.ack(s.due("g", 4, 7, 8, 9, 10)...) // 3 and 6 have used up their attempts
	s.counts("after attempts ran out", "g", 0, 1, 3)
}

func cursorIsHighestOffered(s *subject) {
	s.create(1, "g")
	s.fill(0, 6)
	cursor := func() int64 { return s.info("g").Partitions[0].Cursor }
	equal(s, "cursor at first", cursor(), 0)
	l := s.take("g", 1, 2, 3)
	equal(s, "cursor after a fetch", cursor(), 3)
	s.nack("again", 0, l...)
	equal(s, "cursor after a nack", cursor(), 3)
	s.ack(s.take("g", 1, 2, 3)...)
	equal(s, "cursor after a redelivery", cursor(), 3)
	s.take("g", 4)
	equal(s, "cursor after another fetch", cursor(), 4)
}

func ageOfTheOldest(s *subject) {
	s.create(2, "g")
	oldest := func() time.Duration {
		info := s.info("g")
		return info.OldestUnacked().Round(time.Millisecond)
	}
	equal(s, "age of nothing", oldest(), 0)
	s.fill(0, 1)
	s.clock.Advance(10 * time.Second)
	s.fill(0, 1)
	s.fill(1, 1)
	s.clock.Advance(5 * time.Second)
	equal(s, "age of the first", oldest(), 15*time.Second)
	leases := s.fetch("g", 10)
	equal(s, "age of the first, leased", oldest(), 15*time.Second)
	for _, l := range leases {
		if l.ID == "0-1" {
			s.ack(l)
		}
	}
	equal(s, "age of the second", oldest(), 5*time.Second)
	s.clock.Advance(time.Second)
	lag, err := s.in.Lag(s.Context(), s.stream, "g")
	s.noError(err)
	equal(s, "age as lag tells it", lag.OldestUnacked.Round(time.Millisecond), 6*time.Second)
	for _, l := range leases {
		_ = s.in.Ack(s.Context(), l)
	}
	equal(s, "age of nothing left", oldest(), 0)
}

// Every other event is acked, so that there are as many holes as acks: more than
// a store may care to keep. It may hold new events back then, if it says so, but
// must go on once holes have closed.
func manyHoles(s *subject) {
	s.create(1, "g")
	n := s.scaled(2*10_000 + 400)
	s.fill(0, n)
	var open []*rheo.Lease
	for {
		leases := s.fetchWith("g", rheo.FetchOptions{Max: 200, LeaseDuration: time.Hour})
		if len(leases) == 0 {
			break
		}
		var done []*rheo.Lease
		for _, l := range leases {
			if l.Sequence%2 == 0 {
				done = append(done, l)
			} else {
				open = append(open, l)
			}
		}
		s.ack(done...)
	}
	info := s.info("g")
	if offered := info.Partitions[0].Cursor; offered < int64(n) && !info.Full() {
		s.Fatalf("%d of %d events were offered, no more come, and the group does not say that it is full", offered, n)
	}
	s.nack("redeliveries go on", 0, open[0])
	s.ack(s.due("g", 1)...)
	for at := 1; at < len(open); at += 1000 {
		s.ack(open[at:min(at+1000, len(open))]...)
	}
	s.drain("g")
	info = s.info("g")
	equal(s, "full", info.Full(), false)
	equal(s, "frontier", info.Partitions[0].Frontier, int64(n))
	equal(s, "lag", info.Lag(), 0)
}
