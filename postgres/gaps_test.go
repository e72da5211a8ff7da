package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// written is when each event was committed that has not been seen yet.
type written struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (w *written) commit(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[id] = time.Now()
}

// 16 writers, a third of whose transactions are rolled back or killed, beside one
// transaction that stays open for the whole run. A reader follows: it sees every
// committed event once, in sequence, and soon.
func TestNoGapsNoStalls(t *testing.T) {
	t.Parallel()
	const writers, partitions, run, soon = 16, 4, 4 * time.Second, time.Second
	s := openStore(t, testservers.Postgres(t).Database(t), postgres.Options{}, func(c *pgxpool.Config) { c.MaxConns = writers + 8 })
	s.create(t, "orders", partitions)
	s.holdOpen(t)
	w := &written{at: make(map[string]time.Time)}
	end := time.Now().Add(run)
	var writing, reading sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				s.writeSomehow(t, w, fmt.Sprint(n, "-", i), rand.IntN(partitions))
			}
		})
	}
	stop := make(chan struct{})
	for p := range partitions {
		reading.Go(func() { s.follow(t, w, p, soon, stop) })
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.at {
		t.Errorf("%s, committed at %v, was never seen", id, at)
	}
}

// holdOpen leaves a transaction open that has written, until the test ends.
func (s *store) holdOpen(t *testing.T) {
	t.Helper()
	tx := s.begin(t)
	s.appendTx(t, tx, "orders", pinned(0, "held open")...)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
}

// writeSomehow appends an event by one of the ways there are, a third of which
// come to nothing.
func (s *store) writeSomehow(t *testing.T, w *written, id string, partition int) {
	t.Helper()
	ctx := t.Context()
	if rand.IntN(2) == 0 {
		if _, err := s.Append(ctx, "orders", pinned(partition, id)...); err != nil {
			t.Errorf("append: %v", err)
			return
		}
		w.commit(id)
		return
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		t.Errorf("a connection: %v", err)
		return
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Errorf("begin: %v", err)
		return
	}
	if _, err := postgres.AppendTx(ctx, s.Instance, tx, "orders", pinned(partition, id)...); err != nil {
		t.Errorf("append in a transaction: %v", err)
	}
	switch rand.IntN(3) {
	case 0:
		if err := tx.Rollback(ctx); err != nil {
			t.Errorf("rollback: %v", err)
		}
	case 1: // killed
		if err := conn.Conn().PgConn().Conn().Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	default:
		if err := tx.Commit(ctx); err != nil {
			t.Errorf("commit: %v", err)
			return
		}
		w.commit(id)
	}
}

// follow reads a partition until it is told to stop and nothing has come for a
// while, and strikes off what it sees.
func (s *store) follow(t *testing.T, w *written, partition int, soon time.Duration, stop <-chan struct{}) {
	t.Helper()
	var after int64
	for last := false; ; {
		select {
		case <-stop:
			last = true
		default:
		}
		events, err := s.Read(t.Context(), "orders", partition, after, 1000)
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		now := time.Now()
		for _, e := range events {
			if e.Sequence != after+1 {
				t.Errorf("partition %d: %d came after %d", partition, e.Sequence, after)
			}
			after = e.Sequence
			w.see(t, e.ID, now, soon)
		}
		if last && len(events) == 0 {
			return
		}
	}
}

// see strikes an event off. It may be seen before its writer has noted the
// commit.
func (w *written) see(t *testing.T, id string, now time.Time, soon time.Duration) {
	t.Helper()
	deadline := time.Now().Add(soon)
	for time.Now().Before(deadline) {
		w.mu.Lock()
		at, ok := w.at[id]
		delete(w.at, id)
		w.mu.Unlock()
		if ok {
			if late := now.Sub(at); late > soon {
				t.Errorf("%s was seen %v after its commit", id, late)
			}
			return
		}
	}
	t.Errorf("%s was seen twice, or was never committed", id)
}

func TestDuplicatesAmongConcurrentAppends(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	other := openStore(t, s.url, postgres.Options{}, nil)
	s.create(t, "orders", 2)
	var all sync.WaitGroup
	var mu sync.Mutex
	fresh := make(map[string]int)
	for range 12 {
		for _, in := range []*store{s, other} {
			all.Go(func() {
				for _, i := range rand.Perm(30) {
					id := fmt.Sprint("e", i)
					r, err := in.Append(t.Context(), "orders", rheo.Event{ID: id, Payload: []byte("1")})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if !r[0].Duplicate {
						fresh[id]++
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if n := len(s.ids(t, "orders", 0)) + len(s.ids(t, "orders", 1)); n != 30 || len(fresh) != 30 {
		t.Errorf("the log has %d events, %d were told to be new; want 30", n, len(fresh))
	}
	for id, n := range fresh {
		if n != 1 {
			t.Errorf("%s was told to be new %d times", id, n)
		}
	}
}
