package embedded_test

import (
	"testing"

	"github.com/rheo-go/rheo"
)

// A replay of several partitions drops pages full of dead letters of one before it
// looks for those of the next, in the same transaction. What lies before them is
// another group's.
func TestReplayOfManyDeadLettersInTwoPartitions(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2, rheo.GroupConfig{Partitions: []int{0, 1}})
	s.must(s.in.CreateGroup(t.Context(), "s", "h", rheo.GroupConfig{}))
	events := make([]rheo.Event, 2000)
	for i := range events {
		events[i] = rheo.Event{Partition: i % 2, Pinned: true}
	}
	_, err := s.in.Append(t.Context(), "s", events...)
	s.must(err)
	for _, group := range []string{"g", "h"} {
		for range 2 {
			leases, err := s.in.Fetch(t.Context(), "s", group, rheo.FetchOptions{Max: 1000})
			s.must(err)
			s.must(s.in.Reject(t.Context(), "no", leases...))
		}
	}
	opened, err := s.in.Replay(t.Context(), "s", "h", rheo.ReplaySelection{FromSequence: 1})
	s.must(err)
	if opened != 2000 {
		t.Errorf("opened %d of 2000", opened)
	}
	for d, err := range s.in.DeadLetters(t.Context(), "s", "h") {
		t.Fatalf("left: %v, %v", d, err)
	}
}
