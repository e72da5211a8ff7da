package backendtest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

func badGroup(s *subject) {
	s.create(2)
	var inputs []badInput
	create := func(what, field, group string, c rheo.GroupConfig) {
		inputs = append(inputs, badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			return in.CreateGroup(ctx, s.stream, group, c)
		}})
	}
	for what, text := range badTexts() {
		create(what, "group", text, rheo.GroupConfig{})
	}
	create("a negative start", "start sequence", "g", rheo.GroupConfig{Start: rheo.StartAfter(-1)})
	create("a negative start of a partition", "start sequence", "g", rheo.GroupConfig{Start: rheo.StartAfterEach(map[int]int64{0: -1})})
	create("a start of partition 2 of 2", "start partition", "g", rheo.GroupConfig{Start: rheo.StartAfterEach(map[int]int64{2: 1})})
	create("a start in the year 10000", "timestamp", "g", rheo.GroupConfig{Start: rheo.StartTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))})
	create("an unknown start", "start", "g", rheo.GroupConfig{Start: rheo.Start{Kind: 99}})
	create("partition 2 of 2", "partition", "g", rheo.GroupConfig{Partitions: []int{0, 2}})
	create("partition -1", "partition", "g", rheo.GroupConfig{Partitions: []int{-1}})
	create("a partition twice", "partition", "g", rheo.GroupConfig{Partitions: []int{1, 0, 1}})
	create("negative attempts", "max attempts", "g", rheo.GroupConfig{MaxAttempts: -1})
	create("too many attempts", "max attempts", "g", rheo.GroupConfig{MaxAttempts: rheo.MaxAttemptsLimit + 1})
	create("an unknown ordering", "ordering", "g", rheo.GroupConfig{Ordering: "key"})
	s.refuses(inputs)
}

func badFetch(s *subject) {
	s.create(2, "g")
	s.fill(0, 3)
	var inputs []badInput
	fetch := func(what, field string, o rheo.FetchOptions) {
		inputs = append(inputs, badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Fetch(ctx, s.stream, "g", o)
			return err
		}})
	}
	fetch("a negative number", "max", rheo.FetchOptions{Max: -1})
	fetch("too many", "max", rheo.FetchOptions{Max: rheo.MaxBatch + 1})
	fetch("a lease too short", "lease duration", rheo.FetchOptions{LeaseDuration: rheo.MinLeaseDuration - 1})
	fetch("a negative lease", "lease duration", rheo.FetchOptions{LeaseDuration: -time.Second})
	fetch("a lease too long", "lease duration", rheo.FetchOptions{LeaseDuration: rheo.MaxLeaseDuration + 1})
	fetch("partition 2 of 2", "partition", rheo.FetchOptions{Partitions: []int{2}})
	fetch("partition -1", "partition", rheo.FetchOptions{Partitions: []int{-1}})
	fetch("a partition twice", "partition", rheo.FetchOptions{Partitions: []int{0, 0}})
	for what, text := range badTexts() {
		if text != "" {
			fetch("a consumer with "+what, "consumer", rheo.FetchOptions{ConsumerID: text})
		}
	}
	s.refuses(inputs)
	equal(s, "events of the group", len(s.drain("g")), 4)
}

func badSettle(s *subject) {
	s.create(1, "g", "other")
	s.fill(0, 3)
	good, other := s.take("g", 1)[0], s.take("other", 1)[0]
	elsewhere, nameless, groupless := *good, *good, *good
	elsewhere.Stream, nameless.Stream, groupless.Group = "elsewhere", "", "a\nb"
	var inputs []badInput
	settle := func(what, field string, settlements ...rheo.Settlement) {
		inputs = append(inputs, badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Settle(ctx, settlements...)
			return err
		}})
	}
	renew := func(what, field string, d time.Duration, leases ...*rheo.Lease) {
		inputs = append(inputs, badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Renew(ctx, d, leases...)
			return err
		}})
	}
	for what, leases := range map[string][]*rheo.Lease{
		"a nil lease": {good, nil}, "two groups": {good, other}, "two streams": {good, &elsewhere}, "no stream": {&nameless}, "a bad group": {&groupless},
		"too many": make([]*rheo.Lease, rheo.MaxBatch+1),
	} {
		field := map[string]string{
			"a nil lease": "lease", "two groups": "leases", "two streams": "leases", "no stream": "stream", "a bad group": "group", "too many": "batch",
		}[what]
		settle("settling "+what, field, as(rheo.OutcomeAck, leases...)...)
		renew("renewing "+what, field, lease, leases...)
	}
	for _, o := range []rheo.Outcome{0, -1, 5, math.MaxInt} {
		settle(fmt.Sprint("outcome ", int(o)), "outcome", rheo.Settlement{Lease: good, Outcome: o})
	}
	settle("a bad item behind a good one", "outcome", as(rheo.OutcomeAck, good)[0], rheo.Settlement{Lease: good})
	settle("a negative delay", "delay", rheo.Settlement{Lease: good, Outcome: rheo.OutcomeNack, Delay: -1})
	settle("a delay too long", "delay", rheo.Settlement{Lease: good, Outcome: rheo.OutcomeNack, Delay: rheo.MaxDelay + 1})
	for _, d := range []time.Duration{0, -1, rheo.MinLeaseDuration - 1, rheo.MaxLeaseDuration + 1} {
		renew(fmt.Sprint("renewing for ", d), "lease duration", d, good)
	}
	s.refuses(inputs)
	s.ack(good)
	s.ack(other)
}

func badReplay(s *subject) {
	s.create(2, "g")
	s.fill(0, 3)
	s.drain("g")
	var inputs []badInput
	replay := func(what, field string, selection rheo.ReplaySelection) {
		inputs = append(inputs, badInput{"replaying " + what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Replay(ctx, s.stream, "g", selection)
			return err
		}})
	}
	reset := func(what, field string, o rheo.ResetOptions) {
		o.Confirm = true
		inputs = append(inputs, badInput{"resetting " + what, field, func(ctx context.Context, in *rheo.Instance) error {
			return in.ResetGroup(ctx, s.stream, "g", o)
		}})
	}
	replay("from a negative sequence", "replay sequence", rheo.ReplaySelection{FromSequence: -1})
	replay("nothing", "replay selection", rheo.ReplaySelection{})
	replay("a bad query", "operator", rheo.ReplaySelection{Query: &rheo.Query{Where: []rheo.Condition{{Path: "a", Op: "~"}}}})
	replay("an unknown ID", "id", rheo.ReplaySelection{IDs: []string{"unknown"}})
	replay("an empty ID", "id", rheo.ReplaySelection{IDs: []string{""}})
	replay("an ID with a NUL", "id", rheo.ReplaySelection{IDs: []string{"\x00"}})
	after := func(start rheo.Start) *rheo.Start { return &start }
	reset("to a negative sequence", "start sequence", rheo.ResetOptions{Start: after(rheo.StartAfter(-1))})
	reset("to a start of partition 2 of 2", "start partition", rheo.ResetOptions{Start: after(rheo.StartAfterEach(map[int]int64{2: 1}))})
	reset("to an unknown start", "start", rheo.ResetOptions{Start: &rheo.Start{Kind: -1}})
	for what, partitions := range map[string][]int{"partition 2 of 2": {2}, "partition -1": {-1}, "a partition twice": {0, 0}} {
		replay(what, "partition", rheo.ReplaySelection{FromSequence: 1, Partitions: partitions})
		reset(what, "partition", rheo.ResetOptions{Partitions: partitions})
	}
	s.refuses(inputs)
}

func badDeadLetters(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	s.reject("no", s.take("g", 1)...)
	var inputs []badInput
	for _, limit := range []int{-1, rheo.MaxBatch + 1} {
		inputs = append(inputs, badInput{fmt.Sprint("limit ", limit), "limit", func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.DeadLettersPage(ctx, s.stream, "g", rheo.Cursor{}, limit)
			return err
		}})
	}
	s.refuses(inputs)
}

// Every call refuses a bad stream or group name before it asks the store.
func badNames(s *subject) {
	s.create(1, "g")
	var inputs []badInput
	for what, text := range badTexts() {
		for _, c := range s.calls() {
			if c.on != onStore {
				inputs = append(inputs, badInput{c.name + " with a stream of " + what, "stream", func(ctx context.Context, in *rheo.Instance) error {
					return c.do(ctx, in, text, "g")
				}})
			}
			if c.on == onGroup {
				inputs = append(inputs, badInput{c.name + " with a group of " + what, "group", func(ctx context.Context, in *rheo.Instance) error {
					return c.do(ctx, in, s.stream, text)
				}})
			}
		}
	}
	s.refuses(inputs)
}

func withinTheLimits(s *subject) {
	long := strings.Repeat("é", 127) + "x"
	s.stream = long
	s.create(1, long)
	half := strings.Repeat("v", rheo.MaxMetadataBytes/2-1)
	e := rheo.Event{
		ID: long, Type: long, Key: strings.Repeat("k", rheo.MaxKeyBytes),
		Metadata: map[string]string{"a": half, "b": half}, Timestamp: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	}
	other := rheo.Event{Metadata: map[string]string{long: "", "k": strings.Repeat("v", rheo.MaxMetadataBytes-len(long)-1)}, Key: "a\nb\tc"}
	s.append(e, other)
	got := s.read(0)
	equal(s, "ID", got[0].ID, long)
	equal(s, "type", got[0].Type, long)
	equal(s, "key", got[0].Key, e.Key)
	equal(s, "metadata", got[0].Metadata["b"], half)
	equal(s, "metadata", got[1].Metadata["k"], other.Metadata["k"])
	equal(s, "key", got[1].Key, other.Key)
	l := s.fetchWith(long, rheo.FetchOptions{Max: rheo.MaxBatch, LeaseDuration: rheo.MinLeaseDuration, ConsumerID: long})
	equal(s, "leases", len(l), 2)
	s.renew(rheo.MaxLeaseDuration, l...)
	s.nack("", rheo.MaxDelay, l[0])
	s.reject("no", l[1])
	s.dead(long, 2)
	s.selects("key", rheo.OpEq, e.Key, long)
}

// hostileTexts are names that are good, though they may not look it.
func hostileTexts() []string {
	return []string{
		"'; DROP TABLE events; --", `"quoted"`, "back`tick", `back\slash`, "%s %d %", "a_b%", "$1", "{tag}", "[x]", "a/b/../c", "..", ".", "a:b:c",
		"a b  c", " lead and trail ", "🚀 emoji 👩", "ключ", "名前", "NULL", "null", "true", "0", "-1", "*", "?", "#", "&amp;<b>", "a|b", "(a)", "~", "public.events",
		strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("é", 127), "CON", "a;b,c", "@", "$", "^",
	}
}

func hostileNames(s *subject) {
	names := hostileTexts()
	s.noError(s.in.CreateStream(s.Context(), "bystander", rheo.StreamConfig{}))
	_, err := s.in.Append(s.Context(), "bystander", event("e1"))
	s.noError(err)
	for _, n := range names {
		s.stream, s.filled = n, make(map[int]int)
		s.create(2, n, "g")
		e := rheo.Event{ID: n, Type: n, Key: n, Metadata: map[string]string{n: n}}
		stored := s.append(e)[0]
		equal(s, "duplicate", s.append(e)[0].Duplicate, true)
		equal(s, "ID", s.read(stored.Partition)[0].ID, n)
		equal(s, "metadata", s.read(stored.Partition)[0].Metadata[n], n)
		for _, path := range []string{"id", "type", "key", "metadata." + n} {
			found := s.query(rheo.Query{Where: []rheo.Condition{rheo.Where(path, rheo.OpEq, n), rheo.Where("type", rheo.OpIn, names)}})
			equalList(s, "events by "+path, found, []string{n})
		}
		l := s.fetchWith(n, rheo.FetchOptions{ConsumerID: n})
		equal(s, "leases", len(l), 1)
		s.reject(n, l[0])
		equal(s, "reason", s.deadLetters(n)[0].Reason, n)
		if s.backend.Capabilities().Guarantees.Replay {
			equal(s, "deliveries opened", s.replay(n, rheo.ReplaySelection{IDs: []string{n}}), 1)
			equal(s, "events", len(s.drain(n)), 1)
		}
		equal(s, "events of another group", len(s.drain("g")), 1)
	}
	infos, err := s.in.Streams(s.Context())
	s.noError(err)
	equal(s, "streams", len(infos), len(names)+1)
	for i := range infos {
		equal(s, "events of "+infos[i].Name, infos[i].Events(), 1)
	}
}

func badOptions(s *subject) {
	for what, o := range map[string]*rheo.Options{
		"a name with a NUL": {Name: "a\x00"}, "a name too long": {Name: strings.Repeat("x", 256)}, "a consumer with a newline": {ConsumerID: "a\nb"},
		"a negative payload": {MaxPayload: -1}, "a payload limit too large": {MaxPayload: 1 << 40},
	} {
		_, err := rheo.New(s.backend, o)
		s.invalid(what, err, "Options.")
	}
	_, err := rheo.New(nil, nil)
	s.invalid("no backend", err, "backend")
}
