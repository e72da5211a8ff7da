package backendtest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func groupCases() []testCase {
	return []testCase{
		{name: "groups are independent", run: groupsAreIndependent},
		{name: "groups of one name on two streams are apart", run: sameGroupNameOnTwoStreams},
		{name: "many groups each see everything", run: manyGroups},
		{name: "two consumers never share an event", run: consumersCompete},
		{name: "concurrent consumers never share an event", needs: []need{needsPartitions}, run: consumersCompeteAtOnce},
		{name: "start at the beginning", run: startAtTheBeginning},
		{name: "start at the end", run: startAtTheEnd},
		{name: "start after a sequence", needs: []need{needsPartitions}, run: startAfterASequence},
		{name: "start after a sequence not there yet", run: startBeyondTheEnd},
		{name: "start after a sequence for each partition", needs: []need{needsPartitions}, run: startAfterEach},
		{name: "start at a time", needs: []need{needsPartitions}, run: startAtATime},
		{name: "start at a time after every event", run: startAfterEveryEvent},
		{name: "start at the end beside a writer", run: startBesideAWriter},
		{name: "limited to partitions", needs: []need{needsPartitions}, run: groupLimitedToPartitions},
		{name: "fetch from some partitions", needs: []need{needsPartitions}, run: fetchFromPartitions},
		{name: "a group is created once", run: groupIsCreatedOnce},
		{name: "groups are listed by name", run: groupsAreListed},
		{name: "a group tells its configuration", run: groupTellsItsConfiguration},
		{name: "an unknown group is told by every call, an unknown stream first", run: unknownGroup},
	}
}

func groupsAreIndependent(s *subject) {
	s.create(1, "a", "b")
	s.fill(0, 4)
	s.ack(s.take("a", 1, 2)...)
	s.reject("no", s.take("a", 3)...)
	s.nack("later", time.Hour, s.take("a", 4)...)
	equal(s, "lag of the other", s.lag("b"), 4)
	equal(s, "cursor of the other", s.info("b").Partitions[0].Cursor, 0)
	s.dead("b")
	for _, l := range s.due("b", 1, 2, 3, 4) {
		equal(s, "attempt", l.Attempt, 1)
		equal(s, "group", l.Group, "b")
	}
	s.dead("a", 3)
	equal(s, "lag", s.lag("a"), 1)
}

func sameGroupNameOnTwoStreams(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	s.noError(s.in.CreateStream(s.Context(), "other", rheo.StreamConfig{}))
	s.noError(s.in.CreateGroup(s.Context(), "other", "g", rheo.GroupConfig{}))
	_, err := s.in.Append(s.Context(), "other", event("theirs"))
	s.noError(err)
	s.ack(s.take("g", 1)...)
	theirs, err := s.in.Fetch(s.Context(), "other", "g", rheo.FetchOptions{Max: 10})
	s.noError(err)
	equalList(s, "events of the other stream", idsOf(theirs), []string{"theirs"})
	s.ack(theirs...)
	s.due("g", 2)
	equal(s, "lag", s.lag("g"), 1)
}

func manyGroups(s *subject) {
	s.create(1)
	n := s.scaled(25)
	for i := range n {
		s.group(fmt.Sprint("g", i), rheo.GroupConfig{})
	}
	s.fill(0, 5)
	for i := range n {
		equalList(s, "events", s.drain(fmt.Sprint("g", i)), []string{"0-1", "0-2", "0-3", "0-4", "0-5"})
	}
}

func consumersCompete(s *subject) {
	s.create(1, "g")
	s.fill(0, 10)
	first := s.fetchWith("g", rheo.FetchOptions{Max: 4, ConsumerID: "one"})
	second := s.fetchWith("g", rheo.FetchOptions{Max: 4, ConsumerID: "two"})
	rest := s.fetch("g", 100)
	all := append(append(idsOf(first), idsOf(second)...), idsOf(rest)...)
	equal(s, "events leased", len(all), 10)
	s.eachOnce("three fetches", all, s.query(rheo.Query{}))
	s.ack(rest...)
	s.ack(second...)
	s.ack(first...)
	s.due("g")
	equal(s, "lag", s.lag("g"), 0)
}

// Six consumers fetch and ack in rounds while a writer appends: all together they
// get each event once.
func consumersCompeteAtOnce(s *subject) {
	s.create(3, "g")
	const consumers = 6
	total := int64(s.scaled(300))
	var mu sync.Mutex
	var got []string
	var count atomic.Int64
	s.together(consumers+1, func(who int) error {
		if who == consumers {
			return s.write(int(total))
		}
		for count.Load() < total {
			leases, err := s.in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 1 + who*3})
			if err != nil {
				return err
			}
			mu.Lock()
			got = append(got, idsOf(leases)...)
			mu.Unlock()
			count.Add(int64(len(leases)))
			if err := s.in.Ack(s.Context(), leases...); err != nil {
				return err
			}
		}
		return nil
	})
	s.eachOnce("six consumers", got, s.query(rheo.Query{}))
	equal(s, "events", int64(len(got)), total)
	equal(s, "lag", s.lag("g"), 0)
}

// write appends n events, some one by one and some in batches.
func (s *subject) write(n int) error {
	for i := 0; i < n; {
		batch := make([]rheo.Event, min(n-i, 1+i%7))
		for at := range batch {
			batch[at] = event(fmt.Sprint("e", i))
			i++
		}
		if _, err := s.in.Append(s.Context(), s.stream, batch...); err != nil {
			return err
		}
	}
	return nil
}

func startAtTheBeginning(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.group("g", rheo.GroupConfig{Start: rheo.StartBeginning()})
	s.at("g", 0, 0, 3)
	s.due("g", 1, 2, 3)
}

// at checks a partition's frontier, and lag, and that the cursor is at the
// frontier, as it is of a group that was offered nothing.
func (s *subject) at(group string, partition int, frontier, lag int64) {
	s.Helper()
	for _, p := range s.info(group).Partitions {
		if p.Partition == partition {
			equal(s, "frontier", p.Frontier, frontier)
			equal(s, "cursor", p.Cursor, frontier)
			equal(s, "lag", p.Lag, lag)
			return
		}
	}
	s.Fatalf("group %q does not read partition %d", group, partition)
}

func startAtTheEnd(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.group("g", rheo.GroupConfig{Start: rheo.StartEnd()})
	s.at("g", 0, 3, 0)
	s.due("g")
	s.fill(0, 2)
	s.at("g", 0, 3, 2)
	s.ack(s.due("g", 4, 5)...)
	s.at("g", 0, 5, 0)
}

func startAfterASequence(s *subject) {
	s.create(2)
	s.fill(0, 8)
	s.fill(1, 6)
	s.group("g", rheo.GroupConfig{Start: rheo.StartAfter(5)})
	s.at("g", 0, 5, 3)
	s.at("g", 1, 5, 1)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-6", "0-7", "0-8", "1-6"})
	s.at("g", 0, 8, 0)
	s.at("g", 1, 6, 0)
}

func startBeyondTheEnd(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.group("g", rheo.GroupConfig{Start: rheo.StartAfter(5)})
	equal(s, "lag", s.lag("g"), 0)
	s.fill(0, 2)
	s.due("g")
	equal(s, "lag", s.lag("g"), 0)
	s.fill(0, 2)
	s.ack(s.due("g", 6, 7)...)
	equal(s, "lag", s.lag("g"), 0)
}

func startAfterEach(s *subject) {
	s.create(3)
	for p := range 3 {
		s.fill(p, 3)
	}
	s.group("g", rheo.GroupConfig{Start: rheo.StartAfterEach(map[int]int64{0: 2, 2: 3})})
	s.at("g", 0, 2, 1)
	s.at("g", 1, 0, 3)
	s.at("g", 2, 3, 0)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-3", "1-1", "1-2", "1-3"})
}

func startAtATime(s *subject) {
	s.create(3)
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		partition int
		offsets   string // of the events' timestamps from noon
	}{
		{0, "-2s -1us 0s 1s"},
		{1, "-1s 2s -3s 4s"}, // the first at noon or later by sequence, with what follows
		{2, "-2s -1s"},
	} {
		for i, offset := range strings.Fields(c.offsets) {
			d, err := time.ParseDuration(offset)
			s.noError(err)
			e := on(c.partition, name(c.partition, int64(i+1)))[0]
			e.Timestamp = noon.Add(d)
			s.append(e)
		}
	}
	s.group("g", rheo.GroupConfig{Start: rheo.StartTime(noon.In(time.FixedZone("", 7200)))})
	s.at("g", 0, 2, 2)
	s.at("g", 1, 1, 3)
	s.at("g", 2, 2, 0)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-3", "0-4", "1-2", "1-3", "1-4"})
	late := on(2, "late")[0]
	late.Timestamp = noon.Add(-time.Hour) // "what is appended from now on", whatever its time
	s.append(late)
	equalList(s, "events appended later", s.drain("g"), []string{"late"})
}

func startAfterEveryEvent(s *subject) {
	s.create(1)
	s.fill(0, 5)
	s.group("g", rheo.GroupConfig{Start: rheo.StartTime(s.clock.Now().Add(time.Hour))})
	s.at("g", 0, 5, 0)
	s.due("g")
	s.fill(0, 1)
	s.ack(s.due("g", 6)...)
	s.at("g", 0, 6, 0)
}

// A group is created at the end while a writer appends: wherever the end was, what
// comes after it comes without a gap.
func startBesideAWriter(s *subject) {
	s.create(1)
	s.fill(0, 20)
	n := s.scaled(100)
	s.together(2, func(who int) error {
		if who == 0 {
			return s.write(n)
		}
		for i := range 10 {
			config := rheo.GroupConfig{Start: rheo.StartEnd()}
			if err := s.in.CreateGroup(s.Context(), s.stream, fmt.Sprint("g", i), config); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range 10 {
		g := fmt.Sprint("g", i)
		start := s.frontier(g)
		if start < 20 {
			s.Fatalf("the group starts after %d, when 20 were in the log", start)
		}
		var want []int64
		for sequence := start + 1; sequence <= int64(20+n); sequence++ {
			want = append(want, sequence)
		}
		s.ack(s.due(g, want...)...)
		equal(s, "lag", s.lag(g), 0)
	}
}

func groupLimitedToPartitions(s *subject) {
	s.create(4)
	for p := range 4 {
		s.fill(p, 2)
	}
	s.group("g", rheo.GroupConfig{Partitions: []int{3, 1}})
	info := s.info("g")
	equal(s, "partitions", len(info.Partitions), 2)
	equal(s, "first partition", info.Partitions[0].Partition, 1)
	equal(s, "second partition", info.Partitions[1].Partition, 3)
	equal(s, "lag", s.lag("g"), 4)
	_, err := s.in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 10, Partitions: []int{1, 2}})
	s.invalid("a fetch from another's partition", err, "partition")
	equal(s, "in flight", info.InFlight(), 0)
	equalList(s, "events", sorted(s.drain("g")), []string{"1-1", "1-2", "3-1", "3-2"})
	equal(s, "lag", s.lag("g"), 0)
	s.fill(0, 3)
	equal(s, "lag after an append elsewhere", s.lag("g"), 0)
	s.due("g")
}

func fetchFromPartitions(s *subject) {
	s.create(3, "g")
	for p := range 3 {
		s.fill(p, 3)
	}
	from := func(partitions ...int) []string {
		var ids []string
		for range 6 {
			ids = append(ids, idsOf(s.fetchWith("g", rheo.FetchOptions{Max: 2, Partitions: partitions}))...)
		}
		return sorted(ids)
	}
	equalList(s, "events of one", from(1), []string{"1-1", "1-2", "1-3"})
	equalList(s, "events of the others", from(2, 0), []string{"0-1", "0-2", "0-3", "2-1", "2-2", "2-3"})
	s.due("g")
}

func groupIsCreatedOnce(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	s.ack(s.take("g", 1)...)
	for _, c := range []rheo.GroupConfig{{}, {MaxAttempts: 9, Start: rheo.StartEnd()}} {
		s.fails("creating it again", s.in.CreateGroup(s.Context(), s.stream, "g", c), rheo.ErrAlreadyExists)
	}
	equal(s, "frontier", s.frontier("g"), 1)
	equal(s, "max attempts", s.info("g").MaxAttempts, rheo.DefaultMaxAttempts)

	var created atomic.Int32
	s.together(8, func(int) error {
		err := s.in.CreateGroup(s.Context(), s.stream, "raced", rheo.GroupConfig{})
		if err == nil {
			created.Add(1)
		} else if rheo.Classify(err) != rheo.ReasonAlreadyExists {
			return err
		}
		return nil
	})
	equal(s, "callers that created the group", created.Load(), 1)
	s.ack(s.due("raced", 1, 2, 3)...)
}

func groupsAreListed(s *subject) {
	s.create(1)
	names, err := s.in.Groups(s.Context(), s.stream)
	s.noError(err)
	equal(s, "groups", len(names), 0)
	s.noError(s.in.CreateStream(s.Context(), s.stream+"2", rheo.StreamConfig{}))
	s.noError(s.in.CreateGroup(s.Context(), s.stream+"2", "theirs", rheo.GroupConfig{}))
	for _, g := range []string{"b", "é", "a", "B", "a b"} {
		s.group(g, rheo.GroupConfig{})
	}
	names, err = s.in.Groups(s.Context(), s.stream)
	s.noError(err)
	equalList(s, "groups", names, []string{"B", "a", "a b", "b", "é"})
}

func groupTellsItsConfiguration(s *subject) {
	s.create(1, "plain")
	s.group("g", rheo.GroupConfig{MaxAttempts: 7, Ordering: rheo.OrderingPartition})
	info := s.info("g")
	equal(s, "stream", info.Stream, s.stream)
	equal(s, "group", info.Group, "g")
	equal(s, "max attempts", info.MaxAttempts, 7)
	equal(s, "ordering", info.Ordering, rheo.OrderingPartition)
	s.near("created at", info.CreatedAt, s.clock.Now())
	info = s.info("plain")
	equal(s, "max attempts", info.MaxAttempts, rheo.DefaultMaxAttempts)
	equal(s, "ordering", info.Ordering, rheo.OrderingNone)
}

func unknownGroup(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	for _, c := range s.calls() {
		if c.on == onGroup {
			s.fails(c.name, c.do(s.Context(), s.in, s.stream, "unknown"), rheo.ErrGroupNotFound)
			s.fails(c.name, c.do(s.Context(), s.in, "unknown", "unknown"), rheo.ErrStreamNotFound)
		}
	}
}
