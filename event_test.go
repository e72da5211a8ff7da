package rheo_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

func newInstance(t *testing.T, opts *rheo.Options) *rheo.Instance {
	t.Helper()
	r, err := rheo.New(memory.New(nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CreateStream(t.Context(), "s", rheo.StreamConfig{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaultIDsAreUUIDv7InOrder(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	r := newInstance(t, nil)
	last := ""
	for range 1000 {
		events, err := r.Prepare(t.Context(), "s", rheo.Event{})
		if err != nil {
			t.Fatal(err)
		}
		id := events[0].ID
		if !form.MatchString(id) {
			t.Fatalf("%q is no UUIDv7", id)
		}
		if id <= last {
			t.Fatalf("%q sorts before an ID made earlier, %q", id, last)
		}
		last = id
	}
}

func TestPrepareCompletesAnEvent(t *testing.T) {
	t.Parallel()
	at := time.Date(2018, 2, 1, 3, 4, 5, 678_901_234, time.FixedZone("", 3600))
	r := newInstance(t, &rheo.Options{Clock: fixedClock{at}})
	given := rheo.Event{ID: "a", Sequence: 7, Stream: "elsewhere", Key: "k", Metadata: map[string]string{}}
	got, err := r.Prepare(t.Context(), "s", given)
	if err != nil {
		t.Fatal(err)
	}
	want := []rheo.Event{{
		ID: "a", Stream: "s", Key: "k", Partition: rheo.PHash2("k", 4),
		Timestamp: time.Date(2018, 2, 1, 2, 4, 5, 678_901_000, time.UTC), Payload: []byte("null"),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

type fixedClock struct{ at time.Time }

func (c fixedClock) Now() time.Time { return c.at }

func TestRouting(t *testing.T) {
	t.Parallel()
	r := newInstance(t, nil)
	events, err := r.Prepare(t.Context(), "s",
		rheo.Event{ID: "a", Key: "k"}, rheo.Event{ID: "a"}, rheo.Event{ID: "a", Key: "k", Pinned: true, Partition: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{rheo.PHash2("k", 4), rheo.PHash2("a", 4), 3}
	for i, e := range events {
		if e.Partition != want[i] || e.Pinned {
			t.Errorf("event %d: partition %d, pinned %t; want %d, false", i, e.Partition, e.Pinned, want[i])
		}
	}
	replaced := newInstance(t, &rheo.Options{Router: func(string, int) int { return 2 }})
	if events, err = replaced.Prepare(t.Context(), "s", rheo.Event{}); err != nil || events[0].Partition != 2 {
		t.Errorf("a router of one's own: %v, %v", events, err)
	}
}

func TestCausedByKeepsTheLineage(t *testing.T) {
	t.Parallel()
	first := rheo.Event{ID: "1", Metadata: map[string]string{"tenant": "x"}}
	second := rheo.Event{ID: "2", Metadata: map[string]string{
		rheo.MetadataProducer: "p", rheo.MetadataSchema: "order", rheo.MetadataSchemaVersion: "3",
	}}.CausedBy(&first)
	third := rheo.Event{ID: "3"}.CausedBy(&second)
	if second.CausationID() != "1" || second.CorrelationID() != "1" {
		t.Errorf("second: %v", second.Metadata)
	}
	if third.CausationID() != "2" || third.CorrelationID() != "1" {
		t.Errorf("third: %v", third.Metadata)
	}
	if name, version := second.Schema(); name != "order" || version != "3" || second.Producer() != "p" {
		t.Errorf("second: %v", second.Metadata)
	}
	if len(first.Metadata) != 1 {
		t.Errorf("the cause was changed: %v", first.Metadata)
	}
}
