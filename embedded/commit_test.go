package embedded_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"go.etcd.io/bbolt"
)

var errDisk = errors.New("the disk is on fire")

// gate lets a test decide about each commit.
type gate struct {
	reached chan struct{}
	verdict chan error // nil: commit
}

func (s *testStore) gate() gate {
	g := gate{reached: make(chan struct{}), verdict: make(chan error)}
	ctx := s.Context()
	s.store.OnCommit(func(tx *bbolt.Tx) error {
		select {
		case g.reached <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case err := <-g.verdict:
			return commitOr(err, tx)
		case <-ctx.Done(): // the test has failed
			return commitOr(ctx.Err(), tx)
		}
	})
	return g
}

// open lets every commit through from now on. Nothing may be under way.
func (s *testStore) open() { s.store.OnCommit((*bbolt.Tx).Commit) }

func commitOr(err error, tx *bbolt.Tx) error {
	if err == nil {
		return tx.Commit()
	}
	return errors.Join(err, tx.Rollback())
}

// failing makes every commit fail.
func (s *testStore) failing(err error) {
	s.store.OnCommit(func(tx *bbolt.Tx) error { return commitOr(err, tx) })
}

// during starts f, which must reach a commit, and returns where its error will
// come.
func (g gate) during(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	<-g.reached
	return ended
}

func TestFailedAppend(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2, rheo.GroupConfig{})
	s.fill(0, 3)
	s.failing(errDisk)
	batch := []rheo.Event{
		{ID: "0-4", Partition: 0, Pinned: true, Payload: []byte("1")},
		{ID: "1-1", Partition: 1, Pinned: true, Payload: []byte("1")},
	}
	_, err := s.in.Append(t.Context(), "s", batch...)
	s.fails(err, rheo.ErrFailed)
	s.fails(err, errDisk)
	s.high(0, 3)
	s.high(1, 0)
	s.fails(s.in.CreateStream(t.Context(), "t", rheo.StreamConfig{}), rheo.ErrFailed)
	s.fails(s.in.CreateGroup(t.Context(), "s", "h", rheo.GroupConfig{}), rheo.ErrFailed)

	s.open()
	results, err := s.in.Append(t.Context(), "s", batch...)
	s.must(err)
	if results[0].Duplicate || results[0].Sequence != 4 || results[1].Sequence != 1 {
		t.Fatalf("appended as %+v", results)
	}
	s.high(0, 4)
	s.high(1, 1)
	s.must(s.in.CreateStream(t.Context(), "t", rheo.StreamConfig{}))
	s.must(s.in.CreateGroup(t.Context(), "s", "h", rheo.GroupConfig{}))
	s.crash().high(0, 4)
}

func TestDiskFullIsNamed(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.failing(syscall.ENOSPC)
	_, err := s.in.Append(t.Context(), "s", rheo.Event{})
	s.fails(err, rheo.ErrFailed)
	s.fails(err, syscall.ENOSPC)
	s.must(s.in.Ping(t.Context()))
}

// A second append of the same ID waits for the first one's commit, and is the one
// that counts if that fails.
func TestDuplicateOfPendingAppend(t *testing.T) {
	t.Parallel()
	for _, verdict := range []error{nil, errDisk} {
		s := newStore(t, 1, rheo.GroupConfig{})
		g := s.gate()
		appendIt := func(into *[]rheo.AppendResult) func() error {
			return func() (err error) {
				*into, err = s.in.Append(s.Context(), "s", rheo.Event{ID: "0-1"})
				return err
			}
		}
		var first, second []rheo.AppendResult
		firstEnded := g.during(appendIt(&first))
		secondEnded := make(chan error, 1)
		go func() { secondEnded <- appendIt(&second)() }()
		select {
		case err := <-secondEnded:
			t.Fatalf("the second append ended before the first: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		g.verdict <- verdict
		if verdict != nil {
			s.fails(<-firstEnded, errDisk)
			<-g.reached
			g.verdict <- nil
		} else {
			s.must(<-firstEnded)
		}
		s.must(<-secondEnded)
		if second[0].Sequence != 1 || second[0].Duplicate != (verdict == nil) {
			t.Fatalf("the second append gave %+v", second[0])
		}
		s.open()
		s.high(0, 1)
	}
}

// What fetches and renewals do while a settlement's commit is under way outlives
// its failure, and the settlement does not.
func TestFailedSettle(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 6)
	l := s.takes(4, "1/1", "2/1", "3/1", "4/1")
	g := s.gate()
	ended := g.during(func() error {
		_, err := s.in.Settle(s.Context(),
			rheo.Settlement{Lease: l[0], Outcome: rheo.OutcomeAck},
			rheo.Settlement{Lease: l[1], Outcome: rheo.OutcomeNack},
			rheo.Settlement{Lease: l[2], Outcome: rheo.OutcomeReject})
		return err
	})
	s.frontier(0, 0) // nothing of it may be seen yet
	m := s.takes(2, "2/2", "5/1")
	renewed, err := s.in.Renew(t.Context(), time.Hour, l[3])
	s.must(err)
	s.must(renewed[0].Err)
	g.verdict <- errDisk
	s.fails(<-ended, rheo.ErrFailed)
	s.open()

	s.frontier(0, 0)
	_, err = s.in.Renew(t.Context(), time.Hour, m...)
	s.must(err)
	s.clock.Advance(2 * time.Minute)
	s.takes(9, "1/2", "3/2", "6/1")
	s.fails(s.in.Ack(t.Context(), l[1]), rheo.ErrStaleLease)
	s.must(s.in.Ack(t.Context(), m[0], m[1], l[3])) // 2, 5 and 4
	s.frontier(0, 0)
}

func TestFailedSettleThenCrash(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 3)
	l := s.takes(1, "1/1")
	g := s.gate()
	ended := g.during(func() error { return s.in.Nack(s.Context(), "", 0, l[0]) })
	s.takes(2, "1/2", "2/1")
	g.verdict <- errDisk
	s.fails(<-ended, rheo.ErrFailed)
	s.open()
	s = s.crash()
	l = s.takes(9, "1/3", "2/2", "3/1")
	s.must(s.in.Ack(t.Context(), l...))
	s.crash().frontier(3, 0)
}

// Dead letters that a fetch finds are on disk before it returns. If they cannot be
// written, the next fetch writes them.
func TestFailedDeadLetterOfFetch(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 2)
	s.takes(1, "1/1")
	s.clock.Advance(time.Hour)
	s.failing(errDisk)
	l := s.takes(9, "2/1") // what can be handed out is
	_, err := s.in.Fetch(t.Context(), "s", "g", rheo.FetchOptions{})
	s.fails(err, errDisk)
	s.open()
	s.takes(9)
	s.frontier(1, 1)
	s.must(s.in.Ack(t.Context(), l...))
	s.crash().frontier(2, 1)
}

// Nobody builds on a replay before it is durable.
func TestFailedReplay(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 3)
	l := s.takes(3, "1/1", "2/1", "3/1")
	s.must(s.in.Reject(t.Context(), "no", l...))
	g := s.gate()
	ended := g.during(func() error {
		_, err := s.in.Replay(s.Context(), "s", "g", rheo.ReplaySelection{FromSequence: 1})
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.in.Fetch(ctx, "s", "g", rheo.FetchOptions{})
	s.fails(err, rheo.ErrUnavailable)
	fetched := make(chan []*rheo.Lease, 1)
	go func() {
		leases, err := s.in.Fetch(s.Context(), "s", "g", rheo.FetchOptions{Max: 9})
		if err != nil {
			t.Error(err)
		}
		fetched <- leases
	}()
	g.verdict <- errDisk
	s.fails(<-ended, rheo.ErrFailed)
	if leases := <-fetched; len(leases) > 0 {
		t.Fatalf("%d events of a failed replay were handed out", len(leases))
	}
	s.frontier(3, 3)
	s.open()
	n, err := s.in.Replay(t.Context(), "s", "g", rheo.ReplaySelection{FromSequence: 2})
	s.must(err)
	if n != 2 {
		t.Fatalf("%d were opened", n)
	}
	s.takes(9, "2/1", "3/1")
	s.crash().frontier(1, 1)
}

// An ordered group does not offer a batch before the one before is settled for
// good.
func TestOrderedGroupWaitsForSettle(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{Ordering: rheo.OrderingPartition})
	s.fill(0, 2)
	l := s.takes(1, "1/1")
	g := s.gate()
	ended := g.during(func() error { return s.in.Ack(s.Context(), l...) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.in.Fetch(ctx, "s", "g", rheo.FetchOptions{})
	s.fails(err, rheo.ErrUnavailable)
	g.verdict <- errDisk
	s.fails(<-ended, rheo.ErrFailed)
	s.open()
	s.takes(9)
	s.must(s.in.Ack(t.Context(), l...))
	s.takes(9, "2/1")
}

// A commit that was written but perhaps not synced is ambiguous, and the last.
func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.store.OnCommit(func(tx *bbolt.Tx) error { return errors.Join(tx.Commit(), errDisk) })
	_, err := s.in.Append(t.Context(), "s", rheo.Event{ID: "0-1"})
	s.fails(err, rheo.ErrAmbiguous)
	s.fails(err, errDisk)
	s.open()
	_, err = s.in.Append(t.Context(), "s", rheo.Event{ID: "0-2"})
	s.fails(err, rheo.ErrFailed)
	s.fails(s.in.Ping(t.Context()), rheo.ErrFailed)
	_, err = s.in.Fetch(t.Context(), "s", "g", rheo.FetchOptions{})
	s.fails(err, rheo.ErrFailed)
	s.must(s.in.Close())
	s = openStore(t, s.store.Dir(), s.clock)
	s.high(0, 1)
	s.fill(0, 1)
	s.high(0, 2)
}

func TestContextEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	g := s.gate()
	taken, cancelTaken := context.WithCancel(t.Context())
	ended := g.during(func() error {
		_, err := s.in.Append(taken, "s", rheo.Event{ID: "0-1"})
		return err
	})
	waiting, cancelWaiting := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelWaiting()
	_, err := s.in.Append(waiting, "s", rheo.Event{ID: "never"})
	s.fails(err, rheo.ErrUnavailable)
	s.fails(err, context.DeadlineExceeded)
	cancelTaken()
	err = <-ended
	s.fails(err, rheo.ErrAmbiguous)
	s.fails(err, context.Canceled)
	g.verdict <- nil
	go func() {
		<-g.reached
		g.verdict <- nil
	}()
	s.fill(0, 0)
	results, err := s.in.Append(t.Context(), "s", rheo.Event{ID: "0-2"})
	s.must(err)
	if results[0].Sequence != 2 {
		t.Fatalf("the event got sequence %d", results[0].Sequence)
	}
	s.high(0, 2)
	s.open()
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.must(s.store.Close())
	_, err := s.store.Append(t.Context(), rheo.AppendRequest{Stream: "s"})
	s.fails(err, rheo.ErrClosed)
	_, err = s.store.Streams(t.Context())
	s.fails(err, rheo.ErrClosed)
	s.must(s.store.Close())
}
