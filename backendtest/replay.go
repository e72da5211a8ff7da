package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

func replayCases() []testCase {
	cases := []testCase{
		{name: "from a sequence", run: replayFromSequence},
		{name: "from a sequence above the frontier skips nothing", run: replayAboveTheFrontier},
		{name: "from a sequence never offered opens nothing", run: replayAboveTheCursor},
		{name: "from before the start of the group", run: replayBeforeTheStart},
		{name: "from a time", needs: []need{needsPartitions}, run: replayFromTime},
		{name: "of a query", needs: []need{needsPartitions}, run: replayOfQuery},
		{name: "of IDs", needs: []need{needsPartitions}, run: replayOfIDs},
		{name: "an unknown ID changes nothing", run: replayOfUnknownID},
		{name: "limited to partitions", needs: []need{needsPartitions}, run: replayOfPartitions},
		{name: "of partitions that the group does not read", needs: []need{needsPartitions}, run: replayOfForeignPartitions},
		{name: "attempts start again", run: replayRestartsAttempts},
		{name: "leases in the range are fenced, others are not", run: replayFencesItsRange},
		{name: "what waits for its delay is opened at once", run: replayOpensWhatWaits},
		{name: "no other group is touched", run: replayTouchesNoOtherGroup},
		{name: "what is appended later still arrives", run: replayAndLaterAppends},
		{name: "dead letters in the range are gone", run: replayTakesDeadLetters},
		{name: "what was replayed may die again", run: replayedMayDieAgain},
		{name: "an ordered group gets it in order", run: replayInOrder},
		{name: "of a group that started above the end of the log", run: replayAboveTheLog},
		{name: "replayed again", run: replayTwice},
		{name: "of scattered events beyond what a store keeps", run: replayOfScattered},
		{name: "a replay and an ack at the same time", run: replayBesideAck},
		{name: "the selection is one of the four", run: replaySelection},
	}
	for i := range cases {
		cases[i].needs = append([]need{needsReplay}, cases[i].needs...)
	}
	return cases
}

// finished makes a stream of one partition with n events, all acked by "g".
func (s *subject) finished(n int) {
	s.Helper()
	s.create(1, "g")
	s.fill(0, n)
	equal(s, "events acked", len(s.drain("g")), n)
}

func replayFromSequence(s *subject) {
	s.finished(6)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 4}), 3)
	equal(s, "lag", s.lag("g"), 3)
	s.ack(s.due("g", 4, 5, 6)...)
	equal(s, "lag", s.lag("g"), 0)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 1}), 6)
	s.ack(s.due("g", 1, 2, 3, 4, 5, 6)...)
}

// With everything up to 10 acked, and 150 of 200 offered, a replay from 120
// leaves 11 to 119 to be delivered as before.
func replayAboveTheFrontier(s *subject) {
	s.create(1, "g")
	s.fill(0, 200)
	l := s.fetch("g", 150)
	equal(s, "leases", len(l), 150)
	s.ack(l[:10]...)
	s.nack("again", 0, l[10:20]...)
	s.ack(l[139:]...)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 120}), 31)
	equal(s, "frontier", s.frontier("g"), 10)
	s.ack(l[20:119]...) // their leases are good still
	want := []int64{11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	for sequence := int64(120); sequence <= 200; sequence++ {
		want = append(want, sequence)
	}
	s.ack(s.due("g", want...)...)
	equal(s, "frontier", s.frontier("g"), 200)
}

// A replay from above the cursor opens nothing, and leaves out nothing.
func replayAboveTheCursor(s *subject) {
	s.create(1, "g")
	s.fill(0, 20)
	s.ack(s.take("g", 1, 2, 3, 4, 5)...)
	for _, from := range []int64{6, 15, 20, 21, 1 << 40} {
		equal(s, fmt.Sprint("deliveries opened from ", from), s.replay("g", rheo.ReplaySelection{FromSequence: from}), 0)
	}
	equal(s, "frontier", s.frontier("g"), 5)
	s.fill(0, 1)
	s.ack(s.due("g", 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)...)
}

// What lies before a group's start was never offered to it, but a replay reaches
// it: so a group that began at the end gets at the past.
func replayBeforeTheStart(s *subject) {
	s.create(1)
	s.fill(0, 4)
	s.group("g", rheo.GroupConfig{Start: rheo.StartEnd()})
	s.fill(0, 2)
	s.ack(s.take("g", 5)...)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 3}), 3)
	equal(s, "frontier", s.frontier("g"), 2)
	s.ack(s.due("g", 3, 4, 5, 6)...)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{"0-1"}}), 1)
	s.ack(s.due("g", 1)...)
	equal(s, "lag", s.lag("g"), 0)
}

func replayFromTime(s *subject) {
	s.create(2, "g")
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i, minutes := range []int{0, 10, 5, 20} {
		for p := range 2 {
			e := on(p, name(p, int64(i+1)))[0]
			e.Timestamp = noon.Add(time.Duration(minutes+p*100) * time.Minute)
			s.append(e)
		}
	}
	s.drain("g")
	n := s.replay("g", rheo.ReplaySelection{FromTime: noon.Add(10 * time.Minute).In(time.FixedZone("", -3600))})
	equal(s, "deliveries opened", n, 7)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-2", "0-3", "0-4", "1-1", "1-2", "1-3", "1-4"})
	equal(s, "deliveries opened after every event", s.replay("g", rheo.ReplaySelection{FromTime: noon.Add(time.Hour * 24)}), 0)
	equal(s, "deliveries opened before every event", s.replay("g", rheo.ReplaySelection{FromTime: noon.Add(-time.Hour)}), 8)
}

func replayOfQuery(s *subject) {
	s.create(2, "g")
	s.fill(0, 10)
	s.fill(1, 10)
	s.drain("g")
	q := rheo.Query{
		Where: []rheo.Condition{rheo.Where("id", rheo.OpIn, []string{"0-2", "0-3", "0-9", "1-4", "1-10", "0-1"})},
		After: 1, OrderBy: rheo.ByTimestamp, Descending: true, Limit: 1, // order and limit do not matter
	}
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{Query: &q}), 5)
	lag, err := s.in.Lag(s.Context(), s.stream, "g")
	s.noError(err)
	equal(s, "lag from the first hole", lag.Lag, 9+7)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-2", "0-3", "0-9", "1-10", "1-4"})
	equal(s, "deliveries opened by a query for nothing", s.replay("g", rheo.ReplaySelection{Query: &rheo.Query{After: 99}}), 0)
	equal(s, "deliveries opened by a query for all", s.replay("g", rheo.ReplaySelection{Query: &rheo.Query{}}), 20)
}

func replayOfIDs(s *subject) {
	s.create(2, "g")
	s.fill(0, 5)
	s.fill(1, 5)
	s.append(append(on(0, "both"), on(1, "both")...)...)
	s.drain("g")
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{"1-5", "0-2", "both", "0-2"}}), 4)
	equalList(s, "events", sorted(s.drain("g")), []string{"0-2", "1-5", "both", "both"})
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{}}), 0)
}

func replayOfUnknownID(s *subject) {
	s.finished(3)
	_, err := s.in.Replay(s.Context(), s.stream, "g", rheo.ReplaySelection{IDs: []string{"0-1", "no such ID", "0-2"}})
	s.invalid("an unknown ID", err, "no such ID")
	equal(s, "lag", s.lag("g"), 0)
	s.due("g")
}

func replayOfPartitions(s *subject) {
	s.create(3, "g")
	for p := range 3 {
		s.fill(p, 3)
	}
	s.drain("g")
	for what, selection := range map[string]rheo.ReplaySelection{
		"a sequence": {FromSequence: 3, Partitions: []int{2, 0}},
		"a time":     {FromTime: time.Unix(0, 0), Partitions: []int{1}},
		"a query":    {Query: &rheo.Query{After: 1}, Partitions: []int{1}},
		"IDs":        {IDs: []string{"0-1", "1-1"}, Partitions: []int{1}},
	} {
		want := map[string][]string{
			"a sequence": {"0-3", "2-3"}, "a time": {"1-1", "1-2", "1-3"}, "a query": {"1-2", "1-3"}, "IDs": {"1-1"},
		}[what]
		equal(s, "deliveries opened by "+what, s.replay("g", selection), int64(len(want)))
		equalList(s, "events by "+what, sorted(s.drain("g")), want)
	}
}

func replayOfForeignPartitions(s *subject) {
	s.create(3)
	for p := range 3 {
		s.fill(p, 2)
	}
	s.group("g", rheo.GroupConfig{Partitions: []int{1}})
	s.drain("g")
	equal(s, "deliveries opened of all", s.replay("g", rheo.ReplaySelection{FromSequence: 1}), 2)
	equalList(s, "events", s.drain("g"), []string{"1-1", "1-2"})
	equal(s, "deliveries opened by a query", s.replay("g", rheo.ReplaySelection{Query: &rheo.Query{}}), 2)
	equalList(s, "events", s.drain("g"), []string{"1-1", "1-2"})
	_, err := s.in.Replay(s.Context(), s.stream, "g", rheo.ReplaySelection{FromSequence: 1, Partitions: []int{1, 2}})
	s.invalid("a partition of others", err, "partition")
	s.due("g")
}

func replayInOrder(s *subject) {
	s.ordered(6, 5)
	s.ack(s.batch(2, 1, 2)...)
	l := s.batch(2, 3, 4)
	equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{IDs: []string{"0-2", "0-4"}}), 2)
	s.batch(10) // 3 is in flight
	s.ack(l[0])
	s.ack(s.batch(10, 2, 4, 5, 6)...)
	s.replay("g", rheo.ReplaySelection{FromSequence: 1})
	s.ack(s.batch(3, 1, 2, 3)...)
	s.ack(s.batch(10, 4, 5, 6)...)
}

// The group waits for sequence 11, the log ends at 3. Whatever a replay opens,
// nothing that is not there may be handed out, and what is appended later comes.
func replayAboveTheLog(s *subject) {
	s.create(1)
	s.fill(0, 3)
	s.group("g", rheo.GroupConfig{Start: rheo.StartAfter(10)})
	s.replay("g", rheo.ReplaySelection{FromSequence: 2})
	for _, id := range s.drain("g") {
		if !slices.Contains([]string{"0-2", "0-3"}, id) {
			s.Fatalf("%q was handed out", id)
		}
	}
	equal(s, "lag", s.lag("g"), 0)
	s.fill(0, 9)
	if ids := s.drain("g"); !slices.Contains(ids, "0-11") || !slices.Contains(ids, "0-12") {
		s.Fatalf("after the log had grown to 12, %v came", ids)
	}
	equal(s, "lag", s.lag("g"), 0)
}

func replayTwice(s *subject) {
	s.finished(4)
	for range 3 {
		equal(s, "deliveries opened", s.replay("g", rheo.ReplaySelection{FromSequence: 2}), 3)
	}
	l := s.due("g", 2, 3, 4)
	s.replay("g", rheo.ReplaySelection{FromSequence: 3})
	s.ack(l[0])
	s.fails("an ack of a lease from before", s.in.Ack(s.Context(), l[1]), rheo.ErrStaleLease)
	s.ack(s.due("g", 3, 4)...)
	equal(s, "lag", s.lag("g"), 0)
}

// More than ten thousand events, each apart from the next, are selected: the
// store opens them all or, if it would have to keep too many holes, none.
func replayOfScattered(s *subject) {
	n := s.scaled(2*10_000 + 200)
	s.finished(n)
	even := rheo.Query{Where: []rheo.Condition{rheo.Where("even", rheo.OpEq, true)}}
	for at := 0; at < n; at += 1000 {
		batch := make([]rheo.Event, min(1000, n-at))
		for i := range batch {
			batch[i] = rheo.Event{ID: fmt.Sprint("more", at+i), Payload: fmt.Appendf(nil, `{"even":%t}`, i%2 == 0)}
		}
		s.append(batch...)
	}
	s.drain("g")
	opened, err := s.in.Replay(s.Context(), s.stream, "g", rheo.ReplaySelection{Query: &even})
	if err != nil {
		s.invalid("a selection too scattered", err, "10000")
		opened = 0
	} else {
		equal(s, "deliveries opened", opened, int64(n/2))
	}
	equal(s, "events", len(s.drain("g")), int(opened))
	equal(s, "lag", s.lag("g"), 0)
}

// A lease is acked while its event is replayed. Either way the event is open
// afterwards, and comes once more.
func replayBesideAck(s *subject) {
	s.create(1, "g")
	for round := range s.scaled(40) {
		s.fill(0, 1)
		l := s.fetch("g", 1)
		equal(s, "leases", len(l), 1)
		s.together(2, func(who int) error {
			if who == round%2 {
				_, err := s.in.Replay(s.Context(), s.stream, "g", rheo.ReplaySelection{FromSequence: l[0].Sequence})
				return err
			}
			err := s.in.Ack(s.Context(), l[0])
			if errors.Is(err, rheo.ErrStaleLease) {
				return nil
			}
			return err
		})
		s.ack(s.due("g", l[0].Sequence)...)
		equal(s, "lag", s.lag("g"), 0)
	}
}

func replaySelection(s *subject) {
	s.finished(3)
	for _, selection := range []rheo.ReplaySelection{
		{},
		{Partitions: []int{0}},
		{FromSequence: 1, FromTime: s.clock.Now()},
		{FromSequence: 1, IDs: []string{}},
		{Query: &rheo.Query{}, IDs: []string{"0-1"}},
		{FromTime: s.clock.Now(), Query: &rheo.Query{}},
	} {
		_, err := s.in.Replay(s.Context(), s.stream, "g", selection)
		s.invalid(fmt.Sprintf("%+v", selection), err, "replay selection")
	}
	equal(s, "lag", s.lag("g"), 0)
}
