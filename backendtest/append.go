package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rheo-go/rheo"
)

func appendCases() []testCase {
	return []testCase{
		{name: "a batch keeps its order with nothing in between", run: batchIsContiguous},
		{name: "a batch that fails across partitions is accounted for", needs: []need{needsPartitions}, run: failedBatchIsAccountedFor},
		{name: "a batch is atomic across partitions", needs: []need{needsPartitions, needsAtomic}, run: batchIsAtomicAcrossPartitions},
		{name: "an empty batch appends nothing", run: emptyBatch},
		{name: "the largest batch", run: largestBatch},
		{name: "an ID is appended once", run: idIsAppendedOnce},
		{name: "an ID twice in one batch is appended once", run: idTwiceInABatch},
		{name: "a batch partly held appends the rest", run: batchPartlyHeld},
		{name: "concurrent appends of one ID make one event", run: concurrentAppendsOfOneID},
		{name: "the same ID in two streams is two events", run: sameIDInTwoStreams},
		{name: "the same ID in two partitions is two events", needs: []need{needsPartitions}, run: sameIDInTwoPartitions},
		{name: "the expected sequence is compared", run: expectedSequence},
		{name: "expectations of several partitions", needs: []need{needsPartitions}, run: expectationsOfPartitions},
		{name: "one writer wins each compare and append", run: oneWriterWins},
		{name: "a retry of an expected append succeeds", run: retryOfExpectedAppend},
		{name: "routing by partition, key and ID", needs: []need{needsPartitions}, run: routing},
		{name: "routing as Erlang's phash2", needs: []need{needsPartitions}, run: routingAsErlang},
	}
}

// Six writers append batches; each must stand in the log in one piece.
func batchIsContiguous(s *subject) {
	s.create(1)
	const writers, size = 6, 7
	batches := s.scaled(20)
	s.together(writers, func(who int) error {
		for b := range batches {
			ids := make([]string, size)
			for i := range ids {
				ids[i] = fmt.Sprintf("%d-%d-%d", who, b, i)
			}
			results, err := s.in.Append(s.Context(), s.stream, on(0, ids...)...)
			if err != nil {
				return err
			}
			for i, r := range results {
				if r.ID != ids[i] || r.Sequence != results[0].Sequence+int64(i) {
					return fmt.Errorf("item %d came back as %s with sequence %d, the first has %d", i, r.ID, r.Sequence, results[0].Sequence)
				}
			}
		}
		return nil
	})
	log := eventIDs(s.read(0))
	equal(s, "events", len(log), writers*batches*size)
	for at := 0; at < len(log); at += size {
		head := strings.TrimSuffix(log[at], "0")
		for i := range size {
			equal(s, "event within the batch", log[at+i], fmt.Sprint(head, i))
		}
	}
}

// conflicting appends two events each to two partitions, of which the second has
// another watermark than expected.
func (s *subject) conflicting() ([]rheo.Event, []rheo.AppendResult) {
	s.Helper()
	batch := slices.Concat(on(0, "a1"), on(1, "b1"), on(0, "a2"), on(1, "b2"))
	results, err := s.in.AppendExpecting(s.Context(), s.stream, rheo.ExpectedSequence{0: 0, 1: 5}, batch...)
	s.fails("an append that expects the wrong sequence", err, rheo.ErrConflict)
	return batch, results
}

func failedBatchIsAccountedFor(s *subject) {
	s.create(2)
	s.fill(1, 1)
	batch, results := s.conflicting()
	equalList(s, "partition in conflict", eventIDs(s.read(1)), []string{"1-1"})
	held := eventIDs(s.read(0))
	if len(held) > 0 {
		equalList(s, "partition without conflict", held, []string{"a1", "a2"})
		equal(s, "results", len(results), len(batch))
	}
	for i, r := range results {
		if inLog := slices.Contains(held, batch[i].ID); inLog != (r.Err == nil) {
			s.Fatalf("item %d: in the log: %v, its error: %v", i, inLog, r.Err)
		}
	}
	s.append(batch...) // completes it
	equalList(s, "partition 0", eventIDs(s.read(0)), []string{"a1", "a2"})
	equalList(s, "partition 1", eventIDs(s.read(1)), []string{"1-1", "b1", "b2"})
}

func batchIsAtomicAcrossPartitions(s *subject) {
	s.create(2)
	s.fill(1, 1)
	s.conflicting()
	equal(s, "events in the partition without conflict", len(s.read(0)), 0)

	// Who sees one partition's half of a batch can read the other's.
	n := s.scaled(50)
	s.together(2, func(who int) error {
		for i := range n {
			if who == 0 {
				batch := append(on(0, fmt.Sprint("x", i)), on(1, fmt.Sprint("y", i))...)
				if _, err := s.in.Append(s.Context(), s.stream, batch...); err != nil {
					return err
				}
				continue
			}
			first, err := s.in.Read(s.Context(), s.stream, 0, 0, rheo.MaxBatch)
			if err != nil {
				return err
			}
			second, err := s.in.Read(s.Context(), s.stream, 1, 1, rheo.MaxBatch)
			if err != nil {
				return err
			}
			if len(second) < len(first) {
				return fmt.Errorf("%d batches show in partition 0, only %d in partition 1", len(first), len(second))
			}
		}
		return nil
	})
}

func emptyBatch(s *subject) {
	s.create(1)
	results, err := s.in.Append(s.Context(), s.stream)
	s.noError(err)
	equal(s, "results", len(results), 0)
	equal(s, "events", len(s.read(0)), 0)
}

func largestBatch(s *subject) {
	s.create(1)
	batch := make([]rheo.Event, min(s.scaled(rheo.MaxBatch), rheo.MaxBatch))
	for i := range batch {
		batch[i] = event(fmt.Sprint("e", i))
	}
	s.append(batch...)
	equalList(s, "log", eventIDs(s.read(0)), eventIDs(batch))
}

func idIsAppendedOnce(s *subject) {
	s.create(1)
	e := event("e1")
	e.Type, e.Metadata = "first", map[string]string{"k": "v"}
	first := s.append(e)[0]
	s.append(event("e2"))
	s.clock.Advance(1)
	other := rheo.Event{ID: "e1", Type: "second", Key: "k", Payload: []byte(`"other"`)}
	other.Pinned = true
	again := s.append(other)[0]
	equal(s, "duplicate", again.Duplicate, true)
	equal(s, "sequence", again.Sequence, first.Sequence)
	equal(s, "type", again.Type, "first")
	equal(s, "key", again.Key, "")
	equal(s, "metadata", again.Metadata["k"], "v")
	equal(s, "timestamp", again.Timestamp, first.Timestamp)
	s.sameJSON(again.Payload, `{"id":"e1"}`)
	equalList(s, "log", eventIDs(s.read(0)), []string{"e1", "e2"})
	equal(s, "type in the log", s.read(0)[0].Type, "first")
}

func idTwiceInABatch(s *subject) {
	s.create(1)
	twin := event("e1")
	twin.Type = "twin"
	results := s.append(event("e1"), twin, event("e2"), event("e2"), event("e3"))
	for i, want := range []rheo.AppendResult{
		{Event: rheo.Event{Sequence: 1}},
		{Event: rheo.Event{Sequence: 1}, Duplicate: true},
		{Event: rheo.Event{Sequence: 2}},
		{Event: rheo.Event{Sequence: 2}, Duplicate: true},
		{Event: rheo.Event{Sequence: 3}},
	} {
		equal(s, fmt.Sprint("sequence of item ", i), results[i].Sequence, want.Sequence)
		equal(s, fmt.Sprint("duplicate at item ", i), results[i].Duplicate, want.Duplicate)
	}
	equal(s, "type of the twin", results[1].Type, "")
	equalList(s, "log", eventIDs(s.read(0)), []string{"e1", "e2", "e3"})
}

func batchPartlyHeld(s *subject) {
	s.create(1)
	s.append(event("b"), event("d"))
	results := s.append(event("a"), event("b"), event("c"), event("d"), event("e"))
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprintf("%s %d %t", r.ID, r.Sequence, r.Duplicate))
	}
	equalList(s, "results", got, []string{"a 3 false", "b 1 true", "c 4 false", "d 2 true", "e 5 false"})
	equalList(s, "log", eventIDs(s.read(0)), []string{"b", "d", "a", "c", "e"})
}

// Eight callers append the same IDs with a payload of their own. All of them must
// come back with the one event that is in the log.
func concurrentAppendsOfOneID(s *subject) {
	s.create(1)
	const callers = 8
	rounds := s.scaled(20)
	var mu sync.Mutex
	got := make(map[string][]rheo.AppendResult)
	s.together(callers, func(who int) error {
		for r := range rounds {
			e := rheo.Event{ID: fmt.Sprint("e", r), Payload: []byte(strconv.Itoa(who))}
			results, err := s.in.Append(s.Context(), s.stream, e, rheo.Event{ID: fmt.Sprintf("own-%d-%d", who, r)})
			if err != nil {
				return err
			}
			mu.Lock()
			got[e.ID] = append(got[e.ID], results[0])
			mu.Unlock()
		}
		return nil
	})
	equal(s, "events", len(s.read(0)), rounds+rounds*callers)
	for _, e := range s.read(0) {
		fresh := 0
		for _, r := range got[e.ID] {
			equal(s, "sequence of "+e.ID, r.Sequence, e.Sequence)
			s.sameJSON(r.Payload, string(e.Payload))
			if !r.Duplicate {
				fresh++
			}
		}
		if len(got[e.ID]) > 0 {
			equal(s, "callers told that they appended "+e.ID, fresh, 1)
		}
	}
}

func sameIDInTwoStreams(s *subject) {
	s.create(1)
	s.noError(s.in.CreateStream(s.Context(), "other", rheo.StreamConfig{}))
	s.append(event("e1"))
	results, err := s.in.Append(s.Context(), "other", event("e1"))
	s.noError(err)
	equal(s, "duplicate", results[0].Duplicate, false)
	equal(s, "stream", results[0].Stream, "other")
	equal(s, "sequence", results[0].Sequence, 1)
}

func sameIDInTwoPartitions(s *subject) {
	s.create(2)
	results := s.append(append(on(0, "e1"), on(1, "e1")...)...)
	for p, r := range results {
		equal(s, "duplicate", r.Duplicate, false)
		equal(s, "partition", r.Partition, p)
		equal(s, "sequence", r.Sequence, 1)
	}
}

func (s *subject) expecting(expected rheo.ExpectedSequence, events ...rheo.Event) error {
	_, err := s.in.AppendExpecting(s.Context(), s.stream, expected, events...)
	return err
}

func expectedSequence(s *subject) {
	s.create(1)
	s.noError(s.expecting(rheo.ExpectedSequence{0: 0}, event("e1"), event("e2")))
	for _, wrong := range []int64{0, 1, 3, 1 << 60} {
		s.fails(fmt.Sprint("expecting ", wrong), s.expecting(rheo.ExpectedSequence{0: wrong}, event("e3")), rheo.ErrConflict)
	}
	s.fails("a batch partly held", s.expecting(rheo.ExpectedSequence{0: 1}, event("e2"), event("e3")), rheo.ErrConflict)
	equal(s, "events", len(s.read(0)), 2)
	s.noError(s.expecting(rheo.ExpectedSequence{0: 2}, event("e3")))
	s.noError(s.expecting(nil, event("e4")))
	equalList(s, "log", eventIDs(s.read(0)), []string{"e1", "e2", "e3", "e4"})
}

func expectationsOfPartitions(s *subject) {
	s.create(3)
	s.fill(1, 2)
	s.noError(s.expecting(rheo.ExpectedSequence{0: 0, 1: 2}, slices.Concat(on(0, "a"), on(1, "b"), on(2, "c"))...))
	s.fails("one of two partitions", s.expecting(rheo.ExpectedSequence{1: 2}, on(1, "d")...), rheo.ErrConflict)
	s.noError(s.expecting(rheo.ExpectedSequence{0: 1}, append(on(0, "e"), on(1, "f")...)...))
	equalList(s, "partition 0", eventIDs(s.read(0)), []string{"a", "e"})
	equalList(s, "partition 1", eventIDs(s.read(1)), []string{"1-1", "1-2", "b", "f"})
	equalList(s, "partition 2", eventIDs(s.read(2)), []string{"c"})
}

// Eight writers compare and append until the log is long enough: every sequence
// has one winner, and a winner's event is at the place it expected.
func oneWriterWins(s *subject) {
	s.create(1)
	length := int64(s.scaled(60))
	var wins atomic.Int64
	s.together(8, func(who int) error {
		for expected := int64(0); expected < length; {
			e := event(fmt.Sprintf("%d-%d", who, expected))
			results, err := s.in.AppendExpecting(s.Context(), s.stream, rheo.ExpectedSequence{0: expected}, e)
			switch {
			case err == nil && results[0].Sequence == expected+1:
				wins.Add(1)
				expected++
			case err == nil:
				return fmt.Errorf("expecting %d appended at %d", expected, results[0].Sequence)
			case errors.Is(err, rheo.ErrConflict):
				info, err := s.in.StreamInfo(s.Context(), s.stream)
				if err != nil {
					return err
				}
				expected = info.HighWatermarks[0]
			default:
				return err
			}
		}
		return nil
	})
	equal(s, "wins", wins.Load(), length)
	equal(s, "events", len(s.read(0)), int(length))
}

func retryOfExpectedAppend(s *subject) {
	s.create(1)
	s.append(event("e1"))
	batch := []rheo.Event{event("e2"), event("e3")}
	s.noError(s.expecting(rheo.ExpectedSequence{0: 1}, batch...))
	s.append(event("e4"))
	results, err := s.in.AppendExpecting(s.Context(), s.stream, rheo.ExpectedSequence{0: 1}, batch...)
	s.noError(err)
	for i, r := range results {
		equal(s, "duplicate", r.Duplicate, true)
		equal(s, "sequence", r.Sequence, int64(i+2))
	}
	equal(s, "events", len(s.read(0)), 4)
}
