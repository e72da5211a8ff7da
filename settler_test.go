package rheo

import (
	"context"
	"errors"
	"testing"
	"time"
)

// An answer that is there is not given up for a context that has ended: it may be
// the lease's, which ends with its settling.
func TestReplyPrefersTheAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		r := newReply(2)
		(&answer{to: r, at: 1}).give(ErrFailed)
		if _, err := r.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("half an answer: %v", err)
		}
		(&answer{to: r, at: 0, instead: ErrStaleLease}).give(nil)
		results, err := r.wait(ctx)
		if err != nil || !errors.Is(results[0], ErrStaleLease) || !errors.Is(results[1], ErrFailed) {
			t.Fatalf("%v, %v", results, err)
		}
	}
}

// What comes after a run's end is refused, to be settled by another way.
func TestClosedSettlerRefuses(t *testing.T) {
	t.Parallel()
	s := newSettler(nil, newFlight(1, &reporter{}), time.Second)
	if !s.submit() {
		t.Error("an open settler refuses")
	}
	s.close()
	if s.submit(outcome{}) {
		t.Error("a closed settler accepts what nobody will settle")
	}
	s.run(t.Context()) // returns: nothing waits
	c := &consumer{settler: s, flight: s.flight}
	if c.settle([]Settlement{{Lease: &Lease{}, Outcome: OutcomeAck}}) != nil {
		t.Error("a reply that never comes")
	}
}
