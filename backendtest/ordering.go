package backendtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
)

func orderingCases() []testCase {
	return []testCase{
		{name: "one batch of a partition in flight", run: oneBatchInFlight},
		{name: "other partitions go on", needs: []need{needsPartitions}, run: otherPartitionsGoOn},
		{name: "a nacked event comes first", run: nackedComesFirst},
		{name: "a delayed event holds its partition", run: delayedHoldsItsPartition},
		{name: "a release keeps the order", run: releaseKeepsTheOrder},
		{name: "a reject lets the partition go on", run: rejectLetsGoOn},
		{name: "an expiry keeps the order", run: expiryKeepsTheOrder},
		{name: "the last attempt's expiry lets the partition go on", run: lastExpiryLetsGoOn},
		{name: "a batch half renewed holds its partition", run: halfRenewedHolds},
		{name: "without ordering later events overtake", run: laterEventsOvertake},
		{name: "concurrent consumers finish a partition in order", needs: []need{needsPartitions}, run: finishInOrder},
	}
}

// ordered makes a stream of one partition with n events and an ordered group "g".
func (s *subject) ordered(n, maxAttempts int) {
	s.Helper()
	s.create(1)
	s.group("g", rheo.GroupConfig{Ordering: rheo.OrderingPartition, MaxAttempts: maxAttempts})
	s.fill(0, n)
}

// batch leases with a single fetch, as ordered groups do.
func (s *subject) batch(n int, sequences ...int64) []*rheo.Lease {
	s.Helper()
	leases := s.fetchWith("g", rheo.FetchOptions{Max: n})
	equalList(s, "sequences of the batch", sequencesOf(leases), sequences)
	return leases
}

func oneBatchInFlight(s *subject) {
	s.ordered(6, 5)
	l := s.batch(3, 1, 2, 3)
	s.batch(3)
	s.ack(l[0])
	s.batch(3)
	s.ack(l[2])
	s.batch(3)
	s.ack(l[1])
	s.ack(s.batch(10, 4, 5, 6)...)
	s.batch(10)
	equal(s, "lag", s.lag("g"), 0)
}

func otherPartitionsGoOn(s *subject) {
	s.create(3)
	s.group("g", rheo.GroupConfig{Ordering: rheo.OrderingPartition})
	for p := range 3 {
		s.fill(p, 4)
	}
	take := func(p int) []*rheo.Lease {
		return s.fetchWith("g", rheo.FetchOptions{Max: 2, Partitions: []int{p}})
	}
	first := take(0)
	equal(s, "batch of partition 0", len(first), 2)
	for _, p := range []int{1, 2} {
		equal(s, "second batch of partition 0", len(take(0)), 0)
		equalList(s, "batch", sequencesOf(take(p)), []int64{1, 2})
	}
	s.due("g")
	s.nack("held", time.Hour, first...)
	s.due("g")
	s.expire()
	equalList(s, "events of the others", sorted(s.drain("g")), []string{"1-1", "1-2", "1-3", "1-4", "2-1", "2-2", "2-3", "2-4"})
	s.clock.Advance(time.Hour)
	equalList(s, "events of partition 0", s.drain("g"), []string{"0-1", "0-2", "0-3", "0-4"})
}

func nackedComesFirst(s *subject) {
	s.ordered(6, 5)
	l := s.batch(3, 1, 2, 3)
	s.ack(l[0])
	s.nack("again", 0, l[1])
	s.batch(3) // 3 is still in flight
	s.ack(l[2])
	again := s.batch(3, 2, 4, 5)
	equal(s, "attempt", again[0].Attempt, 2)
	equal(s, "reason", again[0].LastReason, "again")
	s.nack("all", 0, again...)
	s.ack(s.batch(10, 2, 4, 5, 6)...)
}

func delayedHoldsItsPartition(s *subject) {
	s.ordered(5, 5)
	l := s.batch(3, 1, 2, 3)
	s.ack(l[0], l[2])
	s.nack("later", time.Minute, l[1])
	s.clock.Advance(time.Minute - time.Second)
	s.batch(3)
	s.fill(0, 1)
	s.batch(3)
	s.clock.Advance(2 * time.Second)
	s.ack(s.batch(3, 2, 4, 5)...)

	// A delayed event holds what lies behind it, not what lies before it.
	s.fill(0, 3) // 7, 8, 9
	l = s.batch(3, 6, 7, 8)
	s.nack("now", 0, l[0])
	s.nack("later", time.Minute, l[1])
	s.nack("now", 0, l[2])
	s.ack(s.batch(10, 6)...)
	s.batch(10)
	s.clock.Advance(2 * time.Minute)
	s.ack(s.batch(10, 7, 8, 9)...)
}

func releaseKeepsTheOrder(s *subject) {
	s.ordered(6, 5)
	l := s.batch(4, 1, 2, 3, 4)
	s.ack(l[0])
	s.release(l[3], l[1], l[2])
	again := s.batch(2, 2, 3)
	equal(s, "attempt", again[0].Attempt, 1)
	s.nack("again", 0, again[0])
	s.release(again[1])
	s.ack(s.batch(10, 2, 3, 4, 5, 6)...)
}

func rejectLetsGoOn(s *subject) {
	s.ordered(4, 2)
	s.reject("poison", s.batch(1, 1)...)
	s.nack("first", 0, s.batch(1, 2)...)
	s.nack("last", 0, s.batch(1, 2)...)
	s.ack(s.batch(10, 3, 4)...)
	s.dead("g", 1, 2)
	equal(s, "lag", s.lag("g"), 0)
}

func expiryKeepsTheOrder(s *subject) {
	s.ordered(6, 5)
	l := s.batch(3, 1, 2, 3)
	s.clock.Advance(lease - time.Second)
	s.batch(3)
	s.ack(l[1])
	s.clock.Advance(2 * time.Second)
	again := s.batch(2, 1, 3)
	for _, a := range again {
		equal(s, "attempt", a.Attempt, 2)
	}
	s.fails("the old lease", s.in.Ack(s.Context(), l[0]), rheo.ErrStaleLease)
	s.nack("later", time.Minute, again[0])
	s.ack(again[1])
	s.batch(3)
	s.clock.Advance(2 * time.Minute)
	s.ack(s.batch(10, 1, 4, 5, 6)...)
}

func lastExpiryLetsGoOn(s *subject) {
	s.ordered(3, 1)
	s.batch(2, 1, 2)
	s.expire()
	s.ack(s.due("g", 3)...)
	s.dead("g", 1, 2)
	equal(s, "lag", s.lag("g"), 0)
}

func halfRenewedHolds(s *subject) {
	s.ordered(4, 5)
	l := s.batch(3, 1, 2, 3)
	s.clock.Advance(lease - time.Second)
	s.renew(lease, l[2])
	s.clock.Advance(2 * time.Second)
	s.batch(10) // 1 and 2 have expired, 3 is in flight
	s.ack(l[2])
	s.ack(s.batch(10, 1, 2, 4)...)
}

func laterEventsOvertake(s *subject) {
	s.create(1, "g")
	s.fill(0, 6)
	s.take("g", 1)
	l := s.take("g", 2)
	s.nack("later", time.Hour, l...)
	s.ack(s.take("g", 3)...)
	s.ack(s.due("g", 4, 5, 6)...)
	equal(s, "frontier", s.frontier("g"), 0)
}

// Four consumers work on three ordered partitions and fail now and then. What is
// acked in each partition must come in order, nothing twice.
func finishInOrder(s *subject) {
	s.create(3)
	s.group("g", rheo.GroupConfig{Ordering: rheo.OrderingPartition, MaxAttempts: 1000})
	n := s.scaled(60)
	for p := range 3 {
		s.fill(p, n)
	}
	w := &inOrder{subject: s, done: make(map[int]int64), left: 3 * n}
	s.together(4, func(who int) error {
		rng := newRandom(uint64(who))
		for w.more() {
			leases, err := s.in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 1 + rng.IntN(5)})
			if err != nil {
				return err
			}
			fail := rng.IntN(6) // this one, if there are as many, and with it the rest
			if err := w.work(leases[:min(fail, len(leases))]); err != nil {
				return err
			}
			if err := s.in.Nack(s.Context(), "again", 0, leases[min(fail, len(leases)):]...); err != nil {
				return err
			}
		}
		return nil
	})
	equal(s, "lag", s.lag("g"), 0)
}

// inOrder acks leases, which must come in the order of their partition.
type inOrder struct {
	*subject
	mu   sync.Mutex
	done map[int]int64 // by partition: the last sequence acked
	left int
}

func (w *inOrder) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left > 0
}

func (w *inOrder) work(leases []*rheo.Lease) error {
	for _, l := range leases {
		w.mu.Lock()
		last := w.done[l.Partition]
		w.done[l.Partition] = l.Sequence
		w.left--
		w.mu.Unlock()
		if l.Sequence != last+1 {
			return fmt.Errorf("partition %d: %d came behind %d", l.Partition, l.Sequence, last)
		}
		if err := w.in.Ack(w.Context(), l); err != nil {
			return err
		}
	}
	return nil
}
