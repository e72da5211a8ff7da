package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/embedded"
)

// testStore is an open store with a stream "s" and a group "g", and the verbs of
// the tests. A verb fails the test if the call fails.
type testStore struct {
	*testing.T
	in    *rheo.Instance
	store *embedded.Backend
	clock *backendtest.Clock
}

func openStore(t *testing.T, dir string, clock *backendtest.Clock) *testStore {
	t.Helper()
	b, err := embedded.Open(dir, &embedded.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	in, err := rheo.New(b, &rheo.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return &testStore{T: t, in: in, store: b, clock: clock}
}

func newStore(t *testing.T, partitions int, config rheo.GroupConfig) *testStore {
	t.Helper()
	s := openStore(t, t.TempDir(), backendtest.NewClock())
	s.must(s.in.CreateStream(t.Context(), "s", rheo.StreamConfig{Partitions: partitions}))
	s.must(s.in.CreateGroup(t.Context(), "s", "g", config))
	return s
}

// crash reopens the store as after the death of its process.
func (s *testStore) crash() *testStore {
	s.Helper()
	s.store.Abandon()
	return openStore(s.T, s.store.Dir(), s.clock)
}

func (s *testStore) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *testStore) fails(err, sentinel error) {
	s.Helper()
	if !errors.Is(err, sentinel) {
		s.Fatalf("the error is %v, want %q", err, sentinel)
	}
}

// fill appends n events to the partition, with IDs "PARTITION-SEQUENCE".
func (s *testStore) fill(partition, n int) {
	s.Helper()
	info, err := s.in.StreamInfo(s.Context(), "s")
	s.must(err)
	events := make([]rheo.Event, n)
	for i := range events {
		id := fmt.Sprintf("%d-%d", partition, info.HighWatermarks[partition]+int64(i)+1)
		events[i] = rheo.Event{ID: id, Partition: partition, Pinned: true, Payload: []byte(`{"n":1}`)}
	}
	_, err = s.in.Append(s.Context(), "s", events...)
	s.must(err)
}

func (s *testStore) fetch(n int) []*rheo.Lease {
	s.Helper()
	leases, err := s.in.Fetch(s.Context(), "s", "g", rheo.FetchOptions{Max: n, LeaseDuration: time.Minute})
	s.must(err)
	return leases
}

// takes fetches n and expects events "SEQUENCE/ATTEMPT" of partition 0.
func (s *testStore) takes(n int, want ...string) []*rheo.Lease {
	s.Helper()
	leases := s.fetch(n)
	var got []string
	for _, l := range leases {
		got = append(got, fmt.Sprintf("%d/%d", l.Sequence, l.Attempt))
	}
	if !slices.Equal(got, want) {
		s.Fatalf("fetched %v, want %v", got, want)
	}
	return leases
}

func (s *testStore) info() rheo.GroupInfo {
	s.Helper()
	info, err := s.in.GroupInfo(s.Context(), "s", "g")
	s.must(err)
	return info
}

// frontier expects the group's frontier in partition 0, and how many dead letters
// it has.
func (s *testStore) frontier(want, deadLetters int64) {
	s.Helper()
	if info := s.info(); info.Partitions[0].Frontier != want || info.DeadLetters != deadLetters {
		s.Fatalf("the frontier is %d with %d dead letters, want %d with %d",
			info.Partitions[0].Frontier, info.DeadLetters, want, deadLetters)
	}
}

// high expects the partition's high watermark, and that the log is as fill made it.
func (s *testStore) high(partition int, want int64) {
	s.Helper()
	info, err := s.in.StreamInfo(s.Context(), "s")
	s.must(err)
	if got := info.HighWatermarks[partition]; got != want {
		s.Fatalf("the high watermark is %d, want %d", got, want)
	}
	events, err := s.in.Read(s.Context(), "s", partition, 0, int(want)+1)
	s.must(err)
	for i, e := range events {
		if id := fmt.Sprintf("%d-%d", partition, i+1); e.ID != id || e.Sequence != int64(i+1) {
			s.Fatalf("event %d is %q at sequence %d", i+1, e.ID, e.Sequence)
		}
	}
	if len(events) != int(want) {
		s.Fatalf("%d events were read, want %d", len(events), want)
	}
}
