package mongotest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// attempt is one operation on a stream of its own: make prepares it and returns it,
// with a check of what must hold once it has succeeded.
type attempt struct {
	name string
	make func(t *testing.T, s *store, stream string) (do func(context.Context) error, check func())
}

func attempts() []attempt {
	return []attempt{
		{"append", attemptAppend},
		{"append to several partitions", attemptAppendWide},
		{"append of what is partly there", attemptAppendAgain},
		{"append expecting", attemptAppendExpecting},
		{"fetch", attemptFetch},
		{"fetch from several partitions", attemptFetchWide},
		{"settle", attemptSettle},
		{"settle in several partitions", attemptSettleWide},
		{"settle with many dead letters", attemptSettleMany},
		{"renew", attemptRenew},
		{"replay", attemptReplay},
		{"replay of dead letters", attemptRedrive},
		{"reset", attemptReset},
	}
}

// TestLostReplies: of each operation, the answer to each command in turn is lost
// after the command ran, with the connection. The operation succeeds all the same,
// and nothing is lost or doubled.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	eachCommandOnce(t, loseReply)
}

// TestLostRequests: the same, but that the command does not reach the server.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	eachCommandOnce(t, loseRequest)
}

func eachCommandOnce(t *testing.T, f fate) {
	t.Helper()
	for _, a := range attempts() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, mongo.Options{})
			for nth := 1; ; nth++ {
				do, check := a.make(t, s, fmt.Sprint("stream ", nth))
				hit := s.proxy.once(nth, f)
				err := do(t.Context())
				if err != nil {
					t.Errorf("with command %d lost: %v", nth, err)
				}
				if !hit() {
					if nth < 3 {
						t.Errorf("the operation took %d commands only", nth-1)
					}
					return
				}
				check()
			}
		})
	}
}

// once has the nth command from now on meet its fate. hit stops that, and reports
// whether there was one.
func (p *proxy) once(nth int, f fate) (hit func() bool) {
	var mu sync.Mutex
	seen := 0
	p.judged(func(string) fate {
		mu.Lock()
		defer mu.Unlock()
		seen++
		if seen == nth {
			return f
		}
		return pass
	})
	return func() bool {
		p.judged(nil)
		mu.Lock()
		defer mu.Unlock()
		return seen >= nth
	}
}

// TestDyingProcess: of each operation, everything from each command in turn on is
// lost, as when the process dies there; once before the command reaches the server,
// once after. Another process then appends and consumes as if nothing had been.
func TestDyingProcess(t *testing.T) {
	t.Parallel()
	for _, a := range attempts() {
		for _, f := range []fate{loseRequest, loseReply} {
			t.Run(fmt.Sprint(a.name, map[fate]string{loseRequest: ", before", loseReply: ", after"}[f]), func(t *testing.T) {
				t.Parallel()
				dieEverywhere(t, a, f)
			})
		}
	}
}

func dieEverywhere(t *testing.T, a attempt, f fate) {
	t.Helper()
	alive := newStore(t, mongo.Options{})
	for nth := 1; ; nth++ {
		dying := alive.besideProxy(t)
		stream := fmt.Sprint("stream ", nth)
		do, _ := a.make(t, dying, stream)
		died := dying.proxy.from(nth, f)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := do(ctx)
		cancel()
		if !died() {
			if err != nil {
				t.Error(err)
			}
			return
		}
		goOn(t, alive, stream)
	}
}

// from has the nth command from now on meet its fate, and all behind it get lost.
func (p *proxy) from(nth int, f fate) (hit func() bool) {
	var mu sync.Mutex
	seen := 0
	p.judged(func(string) fate {
		mu.Lock()
		defer mu.Unlock()
		seen++
		switch {
		case seen < nth:
			return pass
		case seen == nth:
			return f
		}
		return loseRequest
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return seen >= nth
	}
}

// goOn is another process: the log is whole, takes more, and every event comes to
// an end in the group.
func goOn(t *testing.T, s *store, stream string) {
	t.Helper()
	ctx := t.Context()
	info, err := s.StreamInfo(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	for p := range info.Partitions {
		if _, err := s.Append(ctx, stream, rheo.Event{ID: fmt.Sprint("late ", p), Partition: p, Pinned: true}); err != nil {
			t.Fatal(err)
		}
		whole(t, s, stream, p)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		leases, err := s.Fetch(ctx, stream, "g", rheo.FetchOptions{Max: 1000})
		if err == nil {
			err = s.Ack(ctx, leases...)
		}
		if err != nil {
			t.Fatal(err)
		}
		lag, err := s.Lag(ctx, stream, "g")
		if err != nil {
			t.Fatal(err)
		}
		if lag.Lag == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lag is still %d", lag.Lag)
		}
	}
}

// whole returns the partition's IDs, having checked that no sequence is missing and
// no ID there twice.
func whole(t *testing.T, s *store, stream string, partition int) (ids []string) {
	t.Helper()
	events, err := s.Read(t.Context(), stream, partition, 0, rheo.MaxBatch)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Sequence != int64(i+1) {
			t.Fatalf("event %d of partition %d has sequence %d", i+1, partition, e.Sequence)
		}
		if slices.Contains(ids, e.ID) {
			t.Fatalf("the ID %q is in partition %d twice", e.ID, partition)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// leaseTime is short, since a process that dies keeps its leases until they expire.
const leaseTime = 300 * time.Millisecond

// on returns events of these IDs for a partition.
func on(partition int, ids ...string) []rheo.Event {
	events := make([]rheo.Event, len(ids))
	for i, id := range ids {
		events[i] = rheo.Event{ID: id, Partition: partition, Pinned: true}
	}
	return events
}

func (s *store) append(t *testing.T, stream string, events ...rheo.Event) {
	t.Helper()
	if _, err := s.Append(t.Context(), stream, events...); err != nil {
		t.Fatal(err)
	}
}

func (s *store) fetch(t *testing.T, stream string, d time.Duration) []*rheo.Lease {
	t.Helper()
	leases, err := s.Fetch(t.Context(), stream, "g", rheo.FetchOptions{Max: 1000, LeaseDuration: d})
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func expectIDs(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectLag(t *testing.T, s *store, stream string, want int64) {
	t.Helper()
	lag, err := s.Lag(t.Context(), stream, "g")
	if err != nil {
		t.Fatal(err)
	}
	if lag.Lag != want {
		t.Errorf("the lag is %d, want %d", lag.Lag, want)
	}
}

func attemptAppend(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 1, "g")
	s.append(t, stream, on(0, "a", "b")...)
	var results []rheo.AppendResult
	do = func(ctx context.Context) (err error) {
		results, err = s.Append(ctx, stream, on(0, "c", "d", "e")...)
		return err
	}
	return do, func() {
		for i, r := range results {
			if r.Sequence != int64(i+3) || r.Duplicate {
				t.Errorf("item %d: sequence %d, duplicate %t", i, r.Sequence, r.Duplicate)
			}
		}
		expectIDs(t, "log", whole(t, s, stream, 0), []string{"a", "b", "c", "d", "e"})
	}
}

func attemptAppendWide(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 3, "g")
	batch := slices.Concat(on(0, "a", "b"), on(1, "c"), on(2, "d", "e"))
	do = func(ctx context.Context) error {
		results, err := s.Append(ctx, stream, batch...)
		for _, r := range results {
			err = errors.Join(err, r.Err)
			if r.Duplicate {
				err = errors.Join(err, fmt.Errorf("%s is a duplicate", r.ID))
			}
		}
		return err
	}
	return do, func() {
		expectIDs(t, "partition 0", whole(t, s, stream, 0), []string{"a", "b"})
		expectIDs(t, "partition 1", whole(t, s, stream, 1), []string{"c"})
		expectIDs(t, "partition 2", whole(t, s, stream, 2), []string{"d", "e"})
	}
}

func attemptAppendAgain(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 1, "g")
	s.append(t, stream, on(0, "a", "b")...)
	var results []rheo.AppendResult
	do = func(ctx context.Context) (err error) {
		results, err = s.Append(ctx, stream, on(0, "c", "b", "d", "a")...)
		return err
	}
	return do, func() {
		for i, want := range []int64{3, 2, 4, 1} {
			if r := results[i]; r.Sequence != want || r.Duplicate != (want < 3) {
				t.Errorf("item %d: sequence %d, duplicate %t", i, r.Sequence, r.Duplicate)
			}
		}
		expectIDs(t, "log", whole(t, s, stream, 0), []string{"a", "b", "c", "d"})
	}
}

func attemptAppendExpecting(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 1, "g")
	s.append(t, stream, on(0, "a")...)
	do = func(ctx context.Context) error {
		_, err := s.AppendExpecting(ctx, stream, rheo.ExpectedSequence{0: 1}, on(0, "b", "c")...)
		return err
	}
	return do, func() { expectIDs(t, "log", whole(t, s, stream, 0), []string{"a", "b", "c"}) }
}

func attemptFetch(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 1, "g")
	s.append(t, stream, on(0, "a", "b", "c", "d", "e")...)
	return fetchInTwo(t, s, stream, 3, 5)
}

func attemptFetchWide(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 3, "g")
	s.append(t, stream, slices.Concat(on(0, "a", "b"), on(1, "c", "d"), on(2, "e", "f"))...)
	return fetchInTwo(t, s, stream, 5, 6)
}

// fetchInTwo fetches a part of the events, and then checks that the rest is what is
// left.
func fetchInTwo(t *testing.T, s *store, stream string, n, all int) (do func(context.Context) error, check func()) {
	t.Helper()
	var leases []*rheo.Lease
	do = func(ctx context.Context) (err error) {
		leases, err = s.Fetch(ctx, stream, "g", rheo.FetchOptions{Max: n, LeaseDuration: leaseTime})
		return err
	}
	return do, func() {
		if len(leases) != n {
			t.Errorf("there are %d leases, want %d", len(leases), n)
		}
		if err := s.Ack(t.Context(), leases...); err != nil {
			t.Error(err)
		}
		rest := s.fetch(t, stream, time.Minute)
		if len(rest) != all-n {
			t.Errorf("%d are left, want %d", len(rest), all-n)
		}
		for _, l := range slices.Concat(leases, rest) {
			if l.Attempt != 1 || l.ID == "" {
				t.Errorf("event %q was handed out %d times", l.ID, l.Attempt)
			}
		}
		if err := s.Ack(t.Context(), rest...); err != nil {
			t.Error(err)
		}
		expectLag(t, s, stream, 0)
	}
}

// settle is an attempt to settle leases, all of which are held.
func (s *store) settle(settlements []rheo.Settlement) func(context.Context) error {
	return func(ctx context.Context) error {
		results, err := s.Settle(ctx, settlements...)
		return errors.Join(append(results, err)...)
	}
}

func attemptSettle(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 1, "g")
	s.append(t, stream, on(0, "a", "b", "c", "d")...)
	l := s.fetch(t, stream, leaseTime)
	do = s.settle([]rheo.Settlement{
		{Lease: l[0], Outcome: rheo.OutcomeAck},
		{Lease: l[1], Outcome: rheo.OutcomeNack, Reason: "again"},
		{Lease: l[2], Outcome: rheo.OutcomeReject, Reason: "no"},
		{Lease: l[3], Outcome: rheo.OutcomeRelease},
	})
	return do, func() {
		rest := s.fetch(t, stream, time.Minute)
		if len(rest) != 2 || rest[0].ID != "b" || rest[0].Attempt != 2 || rest[1].ID != "d" || rest[1].Attempt != 1 {
			t.Errorf("what is left is %v", rest)
		}
		expectDead(t, s, stream, "c")
		if err := s.Ack(t.Context(), rest...); err != nil {
			t.Error(err)
		}
		expectLag(t, s, stream, 0)
	}
}

func expectDead(t *testing.T, s *store, stream string, want ...string) {
	t.Helper()
	var got []string
	for d, err := range s.DeadLetters(t.Context(), stream, "g") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.EventID)
	}
	expectIDs(t, "dead letters", got, want)
	info, err := s.GroupInfo(t.Context(), stream, "g")
	if err != nil {
		t.Fatal(err)
	}
	if info.DeadLetters != int64(len(want)) {
		t.Errorf("%d dead letters are counted, want %d", info.DeadLetters, len(want))
	}
}

func attemptSettleWide(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 3, "g")
	s.append(t, stream, slices.Concat(on(0, "a"), on(1, "b"), on(2, "c"))...)
	var settlements []rheo.Settlement
	for _, l := range s.fetch(t, stream, leaseTime) {
		settlements = append(settlements, rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck})
	}
	return s.settle(settlements), func() { expectLag(t, s, stream, 0) }
}

// attemptSettleMany has more dead letters than a ledger's document keeps.
func attemptSettleMany(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	const n = 600
	s.create(t, stream, 1, "g")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("e%03d", i)
	}
	s.append(t, stream, on(0, ids...)...)
	var settlements []rheo.Settlement
	for i, l := range s.fetch(t, stream, leaseTime) {
		settlements = append(settlements, rheo.Settlement{Lease: l, Outcome: rheo.OutcomeReject, Reason: fmt.Sprint("reason ", i)})
	}
	return s.settle(settlements), func() {
		expectDead(t, s, stream, ids...)
		expectLag(t, s, stream, 0)
	}
}

func attemptRenew(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	s.create(t, stream, 2, "g")
	s.append(t, stream, slices.Concat(on(0, "a"), on(1, "b"))...)
	leases := s.fetch(t, stream, leaseTime)
	do = func(ctx context.Context) error {
		results, err := s.Renew(ctx, 2*leaseTime, leases...)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	}
	return do, func() {
		if err := s.Ack(t.Context(), leases...); err != nil {
			t.Error(err)
		}
		expectLag(t, s, stream, 0)
	}
}

// finished is a stream whose group is done with all of it, and has rejected "b".
func finished(t *testing.T, s *store, stream string) {
	t.Helper()
	s.create(t, stream, 2, "g")
	s.append(t, stream, slices.Concat(on(0, "a", "b", "c"), on(1, "d"))...)
	var settlements []rheo.Settlement
	for _, l := range s.fetch(t, stream, leaseTime) {
		o := rheo.OutcomeAck
		if l.ID == "b" {
			o = rheo.OutcomeReject
		}
		settlements = append(settlements, rheo.Settlement{Lease: l, Outcome: o, Reason: "no"})
	}
	if err := s.settle(settlements)(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// reopens checks that these, and nothing else, are delivered anew.
func reopens(t *testing.T, s *store, stream string, want ...string) {
	t.Helper()
	leases := s.fetch(t, stream, time.Minute)
	var got []string
	for _, l := range leases {
		got = append(got, l.ID)
		if l.Attempt != 1 {
			t.Errorf("%q is at attempt %d", l.ID, l.Attempt)
		}
	}
	slices.Sort(got)
	expectIDs(t, "delivered anew", got, want)
	if err := s.Ack(t.Context(), leases...); err != nil {
		t.Error(err)
	}
	expectLag(t, s, stream, 0)
}

func attemptReplay(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	finished(t, s, stream)
	do = func(ctx context.Context) error {
		n, err := s.Replay(ctx, stream, "g", rheo.ReplaySelection{FromSequence: 2})
		if err == nil && n != 2 {
			err = fmt.Errorf("%d were opened", n)
		}
		return err
	}
	return do, func() {
		expectDead(t, s, stream)
		reopens(t, s, stream, "b", "c")
	}
}

func attemptRedrive(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	finished(t, s, stream)
	do = func(ctx context.Context) error {
		n, err := s.Replay(ctx, stream, "g", rheo.ReplaySelection{IDs: []string{"b"}})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d were opened", n)
		}
		return err
	}
	return do, func() {
		expectDead(t, s, stream)
		reopens(t, s, stream, "b")
	}
}

func attemptReset(t *testing.T, s *store, stream string) (do func(context.Context) error, check func()) {
	t.Helper()
	finished(t, s, stream)
	do = func(ctx context.Context) error {
		return s.ResetGroup(ctx, stream, "g", rheo.ResetOptions{Confirm: true})
	}
	return do, func() {
		expectDead(t, s, stream)
		reopens(t, s, stream, "a", "b", "c", "d")
	}
}

// TestOvertaken: the answer to a settle is lost, and before it asks again another
// process has changed the same ledger. It still knows that it went through.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1, "g")
	s.append(t, "s", on(0, "a", "b")...)
	leases := s.fetch(t, "s", time.Minute)
	other := s.besideProxy(t)
	updates := 0
	s.proxy.judged(func(command string) fate {
		if command != "update" {
			return pass
		}
		updates++
		if updates == 1 {
			return loseReply
		}
		if results, err := other.Renew(t.Context(), time.Minute, leases[1]); err != nil || results[0].Err != nil {
			t.Error(err, results)
		}
		return pass
	})
	if err := s.Ack(t.Context(), leases[0]); err != nil {
		t.Error(err)
	}
	if updates != 2 {
		t.Errorf("there were %d updates", updates)
	}
	s.proxy.judged(nil)
	if err := s.Ack(t.Context(), leases[1]); err != nil {
		t.Error(err)
	}
	expectLag(t, s, "s", 0)
}
