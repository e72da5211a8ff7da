package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// ackEach acks the leases in one call and returns what came of each.
func (s *store) ackEach(t *testing.T, leases []*rheo.Lease) []error {
	t.Helper()
	settlements := make([]rheo.Settlement, len(leases))
	for i, l := range leases {
		settlements[i] = rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck}
	}
	results, err := s.Settle(t.Context(), settlements...)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func (s *store) allStale(t *testing.T, what string, leases []*rheo.Lease) {
	t.Helper()
	for i, err := range s.ackEach(t, leases) {
		if !errors.Is(err, rheo.ErrStaleLease) {
			t.Errorf("%s: ack of sequence %d: %v", what, leases[i].Sequence, err)
		}
	}
}

// A batch that was delivered as a whole is lost with its consumer group, before that is
// made again as after.
func TestBatchOfADestroyedConsumerGroup(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(t.Context(), "orders", numbered(8)...); err != nil {
		t.Fatal(err)
	}
	batch := s.fetch(t, "g", 8)
	s.do(t, "xgroup", "destroy", s.key("log"), "g")
	s.allStale(t, "while the group is gone", batch)
	again := s.fetch(t, "g", 8)
	if len(again) != 8 {
		t.Fatalf("got %v", sequences(again))
	}
	s.allStale(t, "when it has delivered anew", batch)
	if err := s.Ack(t.Context(), again...); err != nil {
		t.Error(err)
	}
}

// The pending list is what counts, also where somebody has emptied it.
func TestBatchThatIsNoLongerPending(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(t.Context(), "orders", numbered(8)...); err != nil {
		t.Fatal(err)
	}
	batch := s.fetch(t, "g", 8)
	s.do(t, "xgroup", "destroy", s.key("log"), "g")
	s.do(t, "xgroup", "create", s.key("log"), "g", "8")
	s.allStale(t, "when nothing is pending", batch)
}

// A lease that names more than its fetch has delivered is not good for that.
func TestForgedEndOfABatch(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(t.Context(), "orders", numbered(8)...); err != nil {
		t.Fatal(err)
	}
	mine, theirs := s.fetch(t, "g", 4), s.fetch(t, "g", 4)
	forged := make([]*rheo.Lease, 0, 8)
	forged = append(forged, mine...)
	for _, l := range theirs {
		token, _, _ := strings.Cut(mine[0].LeaseID, "-")
		_, place, _ := strings.Cut(l.LeaseID, "-")
		as := *l
		as.LeaseID = token + "-" + place
		forged = append(forged, &as)
	}
	for i, err := range s.ackEach(t, forged) {
		if stale := errors.Is(err, rheo.ErrStaleLease); stale != (i >= 4) {
			t.Errorf("sequence %d: %v", forged[i].Sequence, err)
		}
	}
	if err := s.Ack(t.Context(), theirs...); err != nil {
		t.Error(err)
	}
}

// What is noted of whole leases goes with them.
func TestNothingIsLeftOfWholeLeases(t *testing.T) {
	t.Parallel()
	clock := &steppedClock{now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	s := newStore(t, rheoredis.Options{Clock: clock})
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(t.Context(), "orders", numbered(40)...); err != nil {
		t.Fatal(err)
	}
	key := s.key("whole:g")
	left := func(want int64) {
		t.Helper()
		if n := s.do(t, "hlen", key); n != want {
			t.Errorf("%v whole leases are noted, want %d", n, want)
		}
	}
	var batches [][]*rheo.Lease
	for range 8 {
		batches = append(batches, s.fetch(t, "g", 5))
	}
	left(8)
	s.ackEach(t, batches[0])
	left(7)
	s.ackEach(t, batches[1][:2])
	left(7)
	s.ackEach(t, batches[1][2:])
	left(6)
	s.ackEach(t, batches[2][1:3])
	left(5)
	clock.now = clock.now.Add(2 * rheo.DefaultLeaseDuration)
	if got := s.fetch(t, "g", 100); len(got) != 28 {
		t.Errorf("got %v", sequences(got))
	}
	left(0)
}
