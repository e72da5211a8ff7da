package backendtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func fairnessCases() []testCase {
	return []testCase{
		{name: "a backlog does not starve its neighbour", needs: []need{needsPartitions}, run: backlogDoesNotStarve},
		{name: "single fetches go round the partitions", needs: []need{needsPartitions}, run: fetchesGoRound},
		{name: "redeliveries do not starve other partitions", needs: []need{needsPartitions}, run: redeliveriesDoNotStarve},
		{name: "redeliveries come before new events, lowest first", run: redeliveriesComeFirst},
		{name: "a fetch is never larger than asked for", needs: []need{needsPartitions}, run: fetchIsNotLarger},
		{name: "a small fetch takes the lowest sequences", run: smallFetchTakesLowest},
		{name: "a backlog is drained once by concurrent consumers", needs: []need{needsPartitions}, run: backlogIsDrainedOnce},
	}
}

// within fetches up to n times until a lease of the partition comes, and fails if
// none does.
func (s *subject) within(n, partition int, o rheo.FetchOptions) {
	s.Helper()
	for range n {
		for _, l := range s.fetchWith("g", o) {
			if l.Partition == partition {
				return
			}
		}
	}
	s.Fatalf("no event of partition %d within %d fetches", partition, n)
}

func backlogDoesNotStarve(s *subject) {
	s.create(2, "g")
	s.fill(0, s.scaled(3000))
	s.fill(1, 200)
	for _, size := range []int{10, 1, 3} {
		s.within(4, 1, rheo.FetchOptions{Max: size})
		s.within(4, 0, rheo.FetchOptions{Max: size})
	}
}

func fetchesGoRound(s *subject) {
	const n = 5
	s.create(n, "g")
	for p := range n {
		s.fill(p, 40)
	}
	for round := range 3 {
		served := make(map[int]bool)
		for range 2 * n {
			for _, l := range s.fetchWith("g", rheo.FetchOptions{Max: 1}) {
				served[l.Partition] = true
			}
		}
		equal(s, fmt.Sprint("partitions served in round ", round), len(served), n)
	}
}

func redeliveriesDoNotStarve(s *subject) {
	s.create(2)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1000})
	s.fill(0, 5)
	s.fill(1, 20)
	for range 8 { // the events of partition 0 always fail
		for range 2 {
			for _, l := range s.fetchWith("g", rheo.FetchOptions{Max: 5}) {
				if l.Partition == 0 {
					s.nack("always", 0, l)
				} else {
					s.ack(l)
				}
			}
		}
	}
	info := s.info("g")
	equal(s, "lag of the partition beside", info.Partitions[1].Lag, 0)
}

func redeliveriesComeFirst(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 10})
	s.fill(0, 12)
	l := s.take("g", 1, 2, 3, 4, 5, 6)
	s.nack("again", 0, l[4])
	s.nack("again", 0, l[1])
	s.release(l[3])
	s.take("g", 2, 4)
	s.take("g", 5, 7) // the redelivery left, and then the first new one
	s.expire()        // 1, 3 and 6 expire with the others
	s.take("g", 1, 2, 3)
	s.due("g", 4, 5, 6, 7, 8, 9, 10, 11, 12)
}

func fetchIsNotLarger(s *subject) {
	s.create(3)
	s.group("g", rheo.GroupConfig{MaxAttempts: 10})
	for p := range 3 {
		s.fill(p, 30)
	}
	for _, n := range []int{1, 2, 7, 100} {
		s.fetchWith("g", rheo.FetchOptions{Max: n}) // fails by itself if it gets more
	}
	s.expire()
	for _, n := range []int{1, 2, 7, 100} {
		s.fetchWith("g", rheo.FetchOptions{Max: n})
	}
	s.clock.Advance(time.Hour)
	l := s.fetchWith("g", rheo.FetchOptions{})
	equal(s, "leases of a fetch without Max", len(l), 1)
}

func smallFetchTakesLowest(s *subject) {
	s.create(1, "g")
	s.fill(0, 5)
	for sequence := range int64(5) {
		s.take("g", sequence+1)
	}
	s.due("g")
}

// A backlog of ten thousand is drained by four consumers at once: each event is
// handed out once, all of them are, and nothing is left.
func backlogIsDrainedOnce(s *subject) {
	s.create(4, "g")
	n := s.scaled(10_000) / 4 * 4
	for p := range 4 {
		s.fill(p, n/4)
	}
	var mu sync.Mutex
	var got []string
	var left atomic.Int64
	left.Store(int64(n))
	s.together(4, func(who int) error {
		for left.Load() > 0 {
			leases, err := s.in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 50 + 20*who})
			if err != nil {
				return err
			}
			if err := s.in.Ack(s.Context(), leases...); err != nil {
				return err
			}
			mu.Lock()
			got = append(got, idsOf(leases)...)
			mu.Unlock()
			left.Add(-int64(len(leases)))
		}
		return nil
	})
	equal(s, "events handed out", len(got), n)
	s.eachOnce("four consumers", got, s.query(rheo.Query{}))
	equal(s, "lag", s.lag("g"), 0)
	s.due("g")
}
