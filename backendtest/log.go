package backendtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func logCases() []testCase {
	return []testCase{
		{name: "sequences count from one", run: sequencesCountFromOne},
		{name: "no gaps for a reader that follows concurrent writers", run: noGapsForAReader},
		{name: "read goes by after and limit", run: readGoesByAfterAndLimit},
		{name: "metadata comes back", run: metadataComesBack},
		{name: "timestamps are kept to the microsecond in UTC", run: timestampsAreKept},
		{name: "defaults are filled in", run: defaultsAreFilledIn},
		{name: "a caller may change what it passed in", run: callerMayChangeArguments},
		{name: "a caller may change what it got", run: callerMayChangeResults},
		{name: "consumption deletes nothing", run: consumptionDeletesNothing},
		{name: "streams are listed by name with their watermarks", run: streamsAreListed},
		{name: "a stream is created once", run: streamIsCreatedOnce},
		{name: "streams are apart", run: streamsAreApart},
		{name: "many partitions", needs: []need{needsPartitions}, run: manyPartitions},
		{name: "an unknown stream is told by every call", run: unknownStream},
		{name: "the schema may be ensured again", run: schemaMayBeEnsuredAgain},
	}
}

func sequencesCountFromOne(s *subject) {
	s.create(1)
	for i := range 5 {
		id := fmt.Sprint("e", i+1)
		r := s.append(event(id))[0]
		equal(s, "sequence", r.Sequence, int64(i+1))
		equal(s, "partition", r.Partition, 0)
		equal(s, "stream", r.Stream, s.stream)
		equal(s, "ID", r.ID, id)
		equal(s, "duplicate", r.Duplicate, false)
	}
	s.append(event("e6"), event("e7"))
	equalList(s, "log", eventIDs(s.read(0)), []string{"e1", "e2", "e3", "e4", "e5", "e6", "e7"})
	info, err := s.in.StreamInfo(s.Context(), s.stream)
	s.noError(err)
	equalList(s, "high watermarks", info.HighWatermarks, []int64{7})
	equal(s, "events", info.Events(), int64(7))
}

// A reader follows the log while eight writers append single events and batches.
// Whatever it is shown, nothing below may be missing.
func noGapsForAReader(s *subject) {
	s.create(1)
	const writers = 8
	each := s.scaled(25)
	var writing atomic.Int32
	writing.Store(writers)
	s.together(writers+1, func(who int) error {
		if who == writers {
			return s.follow(func() bool { return writing.Load() > 0 })
		}
		defer writing.Add(-1)
		for i := range each {
			batch := make([]rheo.Event, 1+i%3*4) // of 1, 5 and 9
			for at := range batch {
				batch[at] = event(fmt.Sprintf("%d-%d-%d", who, i, at))
			}
			if _, err := s.in.Append(s.Context(), s.stream, batch...); err != nil {
				return err
			}
		}
		return nil
	})
	want := 0
	for i := range each {
		want += writers * (1 + i%3*4)
	}
	equal(s, "events in the log", len(s.read(0)), want)
}

// follow reads the log of partition 0 while more may come, from where it is, from
// below, and by what the stream says of itself.
func (s *subject) follow(more func() bool) error {
	var seen int64
	for last := false; !last; {
		last = !more()
		info, err := s.in.StreamInfo(s.Context(), s.stream)
		if err != nil {
			return err
		}
		after := max(0, seen-20)
		events, err := s.in.Read(s.Context(), s.stream, 0, after, rheo.MaxBatch)
		if err != nil {
			return err
		}
		for i, e := range events {
			if e.Sequence != after+int64(i)+1 {
				return fmt.Errorf("behind sequence %d comes %d", after+int64(i), e.Sequence)
			}
		}
		end := after + int64(len(events))
		if end < seen || end < info.HighWatermarks[0] {
			return fmt.Errorf("the log ends at %d, but %d was read and the watermark was %d", end, seen, info.HighWatermarks[0])
		}
		seen = end
	}
	return nil
}

func readGoesByAfterAndLimit(s *subject) {
	s.create(1)
	s.fill(0, 250)
	for _, c := range []struct{ after, limit, from, to int }{
		{0, 10, 1, 10},
		{10, 1, 11, 11},
		{245, 10, 246, 250},
		{250, 10, 0, -1},
		{9999, 10, 0, -1},
		{0, 0, 1, rheo.DefaultPageSize},
		{0, rheo.MaxBatch, 1, 250},
	} {
		events, err := s.in.Read(s.Context(), s.stream, 0, int64(c.after), c.limit)
		s.noError(err)
		var want []string
		for sequence := c.from; sequence <= c.to; sequence++ {
			want = append(want, name(0, int64(sequence)))
		}
		equalList(s, fmt.Sprintf("read after %d, limit %d", c.after, c.limit), eventIDs(events), want)
	}
}

func metadataComesBack(s *subject) {
	s.create(1)
	want := map[string]string{
		rheo.MetadataCorrelationID: "c-1", "dots.and.more": "a.b", "$dollar": "$1", "ключ": "значение 🚀",
		"empty": "", "multi line": "a\nb\tc\r\n\"quoted\" \\ 'x'; DROP TABLE events; --", "json": `{"a":1}`, "0": "0", "_id": "x",
	}
	e := event("e1")
	e.Metadata = want
	s.append(e, event("e2"))
	got := s.read(0)
	equal(s, "correlation ID", got[0].CorrelationID(), "c-1")
	for _, k := range slices.Sorted(maps.Keys(want)) {
		equal(s, "metadata "+k, got[0].Metadata[k], want[k])
	}
	equal(s, "metadata entries", len(got[0].Metadata), len(want))
	equal(s, "metadata entries of an event without", len(got[1].Metadata), 0)
}

func timestampsAreKept(s *subject) {
	s.create(1)
	zone := time.FixedZone("", -7*60*60)
	for i, t := range []time.Time{
		time.Date(2026, 2, 28, 23, 59, 59, 999_999_999, zone),
		time.Date(2024, 2, 29, 0, 0, 0, 1_000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 123_456_000, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 1_000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Unix(0, 0),
	} {
		e := event(fmt.Sprint("e", i))
		e.Timestamp = t
		want := t.UTC().Truncate(time.Microsecond).String()
		equal(s, "appended timestamp", s.append(e)[0].Timestamp.String(), want)
		equal(s, "read timestamp", s.read(0)[i].Timestamp.String(), want)
	}
}

func defaultsAreFilledIn(s *subject) {
	s.create(1)
	first, second := s.append(rheo.Event{})[0], s.append(rheo.Event{})[0]
	if len(first.ID) != 36 || first.ID[14] != '7' || first.ID >= second.ID && first.ID[:13] > second.ID[:13] {
		s.Fatalf("the IDs %q and %q are not UUIDv7", first.ID, second.ID)
	}
	if first.ID == second.ID {
		s.Fatalf("two events got the ID %q", first.ID)
	}
	got := s.read(0)[0]
	equal(s, "timestamp", got.Timestamp, s.clock.Now().UTC().Truncate(time.Microsecond))
	equal(s, "payload", string(got.Payload), "null")
	equal(s, "key and type", got.Key+got.Type, "")
}

func callerMayChangeArguments(s *subject) {
	s.create(1)
	e := event("e1")
	e.Metadata = map[string]string{"k": "before"}
	batch := []rheo.Event{e}
	s.append(batch...)
	batch[0].Metadata["k"] = "after"
	copy(batch[0].Payload, `{"id":"xx"}`)
	batch[0].ID = "other"
	got := s.read(0)[0]
	equal(s, "ID", got.ID, "e1")
	equal(s, "metadata", got.Metadata["k"], "before")
	s.sameJSON(got.Payload, `{"id":"e1"}`)
}

func callerMayChangeResults(s *subject) {
	s.create(1, "g")
	e := event("e1")
	e.Metadata = map[string]string{"k": "v"}
	spoil := func(e *rheo.Event) {
		if e.Metadata != nil {
			e.Metadata["k"] = "spoilt"
		}
		for i := range e.Payload {
			e.Payload[i] = '!'
		}
	}
	spoil(&s.append(e)[0].Event)
	e = event("e1")
	spoil(&s.append(e)[0].Event) // a duplicate's stored event
	spoil(&s.read(0)[0])
	found, err := s.in.Query(s.Context(), s.stream, rheo.Query{})
	s.noError(err)
	spoil(&found[0])
	l := s.take("g", 1)[0]
	spoil(&l.Event)
	s.reject("no", l)
	spoil(&s.deadLetters("g")[0].Event)
	infos, err := s.in.Streams(s.Context())
	s.noError(err)
	infos[0].HighWatermarks[0] = 77
	s.info("g").Partitions[0].Frontier = 77

	equal(s, "metadata", s.read(0)[0].Metadata["k"], "v")
	s.sameJSON(s.read(0)[0].Payload, `{"id":"e1"}`)
	s.sameJSON(s.deadLetters("g")[0].Event.Payload, `{"id":"e1"}`)
	equal(s, "frontier", s.frontier("g"), 1)
}

func consumptionDeletesNothing(s *subject) {
	s.create(1, "g", "other")
	s.fill(0, 6)
	before := s.read(0)
	s.ack(s.take("g", 1, 2)...)
	s.reject("bad", s.take("g", 3)...)
	s.nack("again", 0, s.take("g", 4)...)
	s.release(s.take("g", 4)...)
	s.drain("g")
	equalList(s, "log", eventIDs(s.read(0)), eventIDs(before))
	equalList(s, "query", s.query(rheo.Query{}), s.query(rheo.Query{}))
	equal(s, "events of the other group", len(s.drain("other")), 6)
}

func streamsAreListed(s *subject) {
	s.noError(s.in.CreateStream(s.Context(), "b", rheo.StreamConfig{}))
	s.noError(s.in.CreateStream(s.Context(), "a", rheo.StreamConfig{}))
	s.noError(s.in.CreateStream(s.Context(), "B", rheo.StreamConfig{}))
	s.noError(s.in.CreateStream(s.Context(), "é", rheo.StreamConfig{}))
	_, err := s.in.Append(s.Context(), "b", event("e1"), event("e2"))
	s.noError(err)
	infos, err := s.in.Streams(s.Context())
	s.noError(err)
	var got []string
	for i := range infos {
		got = append(got, fmt.Sprintf("%s %d %d", infos[i].Name, infos[i].Partitions, infos[i].HighWatermarks))
		s.near("created at", infos[i].CreatedAt, s.clock.Now())
	}
	equal(s, "streams", strings.Join(got, ", "), "B 1 [0], a 1 [0], b 1 [2], é 1 [0]")
}

func streamIsCreatedOnce(s *subject) {
	s.create(1)
	s.append(event("e1"))
	err := s.in.CreateStream(s.Context(), s.stream, rheo.StreamConfig{Partitions: 1})
	s.fails("creating it again", err, rheo.ErrAlreadyExists)
	equal(s, "events", len(s.read(0)), 1)

	var created atomic.Int32
	s.together(8, func(int) error {
		err := s.in.CreateStream(s.Context(), "raced", rheo.StreamConfig{})
		if err == nil {
			created.Add(1)
			return nil
		}
		if rheo.Classify(err) != rheo.ReasonAlreadyExists {
			return err
		}
		return nil
	})
	equal(s, "callers that created the stream", created.Load(), 1)
}

func streamsAreApart(s *subject) {
	s.create(1, "g")
	for _, other := range []string{s.stream + "0", s.stream + ":0", strings.ToUpper(s.stream), s.stream + " "} {
		s.noError(s.in.CreateStream(s.Context(), other, rheo.StreamConfig{}))
		s.noError(s.in.CreateGroup(s.Context(), other, "g", rheo.GroupConfig{}))
		_, err := s.in.Append(s.Context(), other, event("theirs"))
		s.noError(err)
	}
	s.append(event("ours"))
	equalList(s, "log", eventIDs(s.read(0)), []string{"ours"})
	equalList(s, "query", s.query(rheo.Query{}), []string{"ours"})
	equalList(s, "group", s.drain("g"), []string{"ours"})
}

func manyPartitions(s *subject) {
	n := min(s.scaled(rheo.MaxPartitions), rheo.MaxPartitions)
	s.create(n, "g")
	for _, p := range []int{0, n / 2, n - 1} {
		s.fill(p, 2)
	}
	info, err := s.in.StreamInfo(s.Context(), s.stream)
	s.noError(err)
	equal(s, "partitions", info.Partitions, n)
	equal(s, "watermarks", len(info.HighWatermarks), n)
	equal(s, "events", info.Events(), 6)
	equal(s, "lag", s.lag("g"), 6)
	equal(s, "events of the group", len(s.drain("g")), 6)
	equal(s, "lag", s.lag("g"), 0)
	equal(s, "partitions of the group", len(s.info("g").Partitions), n)
}

func unknownStream(s *subject) {
	for _, c := range s.calls() {
		if c.on != onStore {
			s.fails(c.name, c.do(s.Context(), s.in, "nowhere", "g"), rheo.ErrStreamNotFound)
		}
	}
}

func schemaMayBeEnsuredAgain(s *subject) {
	s.create(1)
	s.append(event("e1"))
	s.together(4, func(int) error { return s.in.EnsureSchema(s.Context()) })
	s.noError(s.in.Ping(s.Context()))
	equal(s, "events", len(s.read(0)), 1)
}
