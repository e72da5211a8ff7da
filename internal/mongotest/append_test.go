package mongotest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// TestUnserialised: appends rest on a unique index alone, and so are right even on
// a server whose updates are not atomic, with nothing to make commands take turns.
func TestUnserialised(t *testing.T) {
	t.Parallel()
	p := newProxyBefore(t, upstream(t), false)
	s := openStore(t, p, connect(t, p, nil).Database(databaseName()), mongo.Options{})
	s.create(t, "s", 2)
	const writers, batches = 6, 8
	var wg sync.WaitGroup
	for w := range writers {
		in := s.beside(t) // each a process of its own
		wg.Go(func() {
			for i := range batches {
				batch := append(on(0, fmt.Sprint(w, "-", i), fmt.Sprint("shared ", i)), on(1, fmt.Sprint(w, "+", i))...)
				if _, err := in.Append(t.Context(), "s", batch...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(whole(t, s, "s", 0)); n != (writers+1)*batches {
		t.Errorf("partition 0 holds %d events, want %d", n, (writers+1)*batches)
	}
	if n := len(whole(t, s, "s", 1)); n != writers*batches {
		t.Errorf("partition 1 holds %d events, want %d", n, writers*batches)
	}
}

// TestUnreliableNetwork: several processes append to one partition and consume it,
// and one answer or request in fifteen is lost. Whatever is told of an append, it is
// repeated until it succeeds.
func TestUnreliableNetwork(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1, "g")
	const processes, batches = 3, 12
	var wg sync.WaitGroup
	for w := range processes {
		in := s.besideProxy(t)
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		in.proxy.judged(func(string) fate {
			mu.Lock()
			defer mu.Unlock()
			switch rng.IntN(30) {
			case 0:
				return loseReply
			case 1:
				return loseRequest
			}
			return pass
		})
		wg.Go(func() {
			for i := range batches {
				batch := on(0, fmt.Sprint(w, "-", i), fmt.Sprint(w, "+", i))
				for {
					_, err := in.Append(t.Context(), "s", batch...)
					if err == nil {
						break
					}
					if !errors.Is(err, rheo.ErrAmbiguous) && !errors.Is(err, rheo.ErrUnavailable) {
						t.Error(err)
						return
					}
				}
				if leases, err := in.Fetch(t.Context(), "s", "g", rheo.FetchOptions{Max: 3, LeaseDuration: leaseTime}); err == nil {
					_, _ = in.Settle(t.Context(), acks(leases)...) // or they expire, and come again
				}
			}
		})
	}
	wg.Wait()
	goOn(t, s, "s")
	if ids := whole(t, s, "s", 0); len(ids) != 2*processes*batches+1 {
		t.Errorf("the log holds %d events, want %d: %v", len(ids), 2*processes*batches+1, ids)
	}
}

func acks(leases []*rheo.Lease) []rheo.Settlement {
	settlements := make([]rheo.Settlement, len(leases))
	for i, l := range leases {
		settlements[i] = rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck}
	}
	return settlements
}

// TestAnswersLostForGood: an append whose answers never come is ambiguous, and its
// repetition finds it.
func TestAnswersLostForGood(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1)
	s.append(t, "s", on(0, "a")...)
	s.proxy.judged(func(command string) fate {
		if command == "insert" {
			return loseReply
		}
		if command == "find" {
			return loseRequest
		}
		return pass
	})
	_, err := s.Append(t.Context(), "s", on(0, "b")...)
	if !errors.Is(err, rheo.ErrUnavailable) {
		t.Errorf("nothing was sent but reads, and the error is %v", err)
	}
	s.proxy.judged(func(command string) fate {
		if command == "insert" {
			s.proxy.judged(func(string) fate { return loseRequest })
			return loseReply
		}
		return pass
	})
	_, err = s.Append(t.Context(), "s", on(0, "b")...)
	if !errors.Is(err, rheo.ErrAmbiguous) {
		t.Errorf("the error is %v", err)
	}
	s.proxy.judged(nil)
	results, err := s.Append(t.Context(), "s", on(0, "b")...)
	if err != nil || !results[0].Duplicate || results[0].Sequence != 2 {
		t.Errorf("the repetition came to %v, %v", results, err)
	}
}

// TestAppendsShareCommands: those that come while one is under way go together.
func TestAppendsShareCommands(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1)
	s.append(t, "s", on(0, "first")...)
	s.proxy.takeCounts()
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if r, err := s.Append(t.Context(), "s", on(0, fmt.Sprint(i))...); err != nil || r[0].ID != fmt.Sprint(i) || r[0].Duplicate {
				t.Errorf("append %d: %v, %v", i, r, err)
			}
		})
	}
	wg.Wait()
	if inserts := s.proxy.takeCounts()["insert"]; inserts > n/2 {
		t.Errorf("%d appends took %d inserts", n, inserts)
	}
	if ids := whole(t, s, "s", 0); len(ids) != n+1 {
		t.Errorf("the log holds %d events", len(ids))
	}
}

func TestBatchTooLarge(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 2)
	payload := slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), rheo.MaxPayloadDefault-2), []byte(`"`))
	batch := make([]rheo.Event, 16)
	for i := range batch {
		batch[i] = rheo.Event{ID: fmt.Sprint(i), Pinned: true, Payload: payload}
	}
	_, err := s.Append(t.Context(), "s", batch...)
	fails(t, err, rheo.ErrInvalid, "15728640 bytes")
	if ids := whole(t, s, "s", 0); len(ids) > 0 {
		t.Errorf("the log holds %v", ids)
	}
	if _, err := s.Append(t.Context(), "s", batch[:14]...); err != nil {
		t.Error(err)
	}
	if ids := whole(t, s, "s", 0); len(ids) != 14 {
		t.Errorf("the log holds %v", ids)
	}
}

// TestConflictInOnePartition: an append to two partitions, of which one is not
// where it was expected, appends to neither.
func TestConflictInOnePartition(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 2)
	s.append(t, "s", on(1, "a")...)
	batch := append(on(0, "b"), on(1, "c")...)
	_, err := s.AppendExpecting(t.Context(), "s", rheo.ExpectedSequence{0: 0, 1: 0}, batch...)
	fails(t, err, rheo.ErrConflict, "partition 1")
	if ids := whole(t, s, "s", 0); len(ids) > 0 {
		t.Errorf("partition 0 holds %v", ids)
	}
}
