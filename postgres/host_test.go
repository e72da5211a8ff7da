package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

func (s *store) begin(tb testing.TB) pgx.Tx {
	tb.Helper()
	tx, err := s.pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return tx
}

func (s *store) appendTx(tb testing.TB, tx pgx.Tx, stream string, events ...rheo.Event) {
	tb.Helper()
	if _, err := postgres.AppendTx(tb.Context(), s.Instance, tx, stream, events...); err != nil {
		tb.Fatal(err)
	}
}

func commit(tb testing.TB, tx pgx.Tx) {
	tb.Helper()
	if err := tx.Commit(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (s *store) ids(tb testing.TB, stream string, partition int) []string {
	tb.Helper()
	events, err := s.Read(tb.Context(), stream, partition, 0, rheo.MaxBatch)
	if err != nil {
		tb.Fatal(err)
	}
	ids := make([]string, len(events))
	for i, e := range events {
		if ids[i] = e.ID; e.Sequence != int64(i+1) {
			tb.Fatalf("event %d has sequence %d", i, e.Sequence)
		}
	}
	return ids
}

func pinned(partition int, ids ...string) []rheo.Event {
	events := make([]rheo.Event, len(ids))
	for i, id := range ids {
		events[i] = rheo.Event{ID: id, Partition: partition, Pinned: true, Metadata: map[string]string{"n": id}, Payload: []byte(`{"a": [1]}`)}
	}
	return events
}

func equalIDs(tb testing.TB, what string, got []string, want ...string) {
	tb.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		tb.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func TestAppendTxIsSeenWithTheCommitAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	s.create(t, "orders", 2, "g")
	open, rolledBack, committed := s.begin(t), s.begin(t), s.begin(t)
	s.appendTx(t, open, "orders", pinned(0, "open")...)
	s.appendTx(t, rolledBack, "orders", pinned(0, "never")...)
	s.appendTx(t, committed, "orders", pinned(0, "c", "a", "b", "a")...)
	s.appendTx(t, committed, "orders", pinned(1, "other")...)
	equalIDs(t, "before any commit", s.ids(t, "orders", 0))
	if err := rolledBack.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "orders", pinned(0, "b")...); err != nil {
		t.Fatal(err)
	}
	commit(t, committed)
	equalIDs(t, "after a commit", s.ids(t, "orders", 0), "b", "c", "a")
	leases, err := s.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{Max: 10})
	if err != nil || len(leases) != 4 {
		t.Fatalf("fetched %d, %v", len(leases), err)
	}
	commit(t, open)
	if leases, err = s.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{Max: 10}); err != nil || len(leases) != 1 || leases[0].ID != "open" {
		t.Fatalf("fetched %v, %v", leases, err)
	}
	if leases[0].Metadata["n"] != "open" || leases[0].Sequence != 4 {
		t.Errorf("fetched %+v", leases[0].Event)
	}
}

// Whatever looks first finds what was put aside.
func TestEveryCallFindsWhatWasPutAside(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{WithoutNotify: true})
	ctx := t.Context()
	looks := map[string]func(stream string) (int, error){
		"stream": func(stream string) (int, error) {
			info, err := s.StreamInfo(ctx, stream)
			return int(info.Events()), err
		},
		"streams": func(stream string) (int, error) {
			infos, err := s.Streams(ctx)
			for i := range infos {
				if infos[i].Name == stream {
					return int(infos[i].Events()), err
				}
			}
			return 0, err
		},
		"read":  func(stream string) (int, error) { e, err := s.Read(ctx, stream, 0, 0, 9); return len(e), err },
		"query": func(stream string) (int, error) { e, err := s.Query(ctx, stream, rheo.Query{}); return len(e), err },
		"lag":   func(stream string) (int, error) { l, err := s.Lag(ctx, stream, "g"); return int(l.Lag), err },
		"fetch": func(stream string) (int, error) {
			l, err := s.Fetch(ctx, stream, "g", rheo.FetchOptions{Max: 9})
			return len(l), err
		},
		"group from the end": func(stream string) (int, error) {
			err := s.CreateGroup(ctx, stream, "late", rheo.GroupConfig{Start: rheo.StartEnd()})
			if err != nil {
				return 0, err
			}
			info, err := s.GroupInfo(ctx, stream, "late")
			return int(info.Partitions[0].Cursor), err
		},
	}
	for name, look := range looks {
		s.create(t, name, 1, "g")
		tx := s.begin(t)
		s.appendTx(t, tx, name, pinned(0, "1", "2", "3")...)
		commit(t, tx)
		if n, err := look(name); err != nil || n != 3 {
			t.Errorf("%s: %d events, %v; want 3", name, n, err)
		}
	}
}

// 32 transactions append to the same partitions, in every order, and dawdle
// before they commit.
func TestHostTransactionsRunSideBySide(t *testing.T) {
	t.Parallel()
	const transactions, dawdle = 32, 50 * time.Millisecond
	s := openStore(t, testservers.Postgres(t).Database(t), postgres.Options{}, func(c *pgxpool.Config) { c.MaxConns = transactions + 8 })
	s.create(t, "orders", 4)
	var all sync.WaitGroup
	start := time.Now()
	for i := range transactions {
		all.Go(func() {
			err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				for _, p := range rand.Perm(4) {
					if _, err := postgres.AppendTx(t.Context(), s.Instance, tx, "orders", pinned(p, fmt.Sprint("e", i, "-", p))...); err != nil {
						return err
					}
				}
				_, err := tx.Exec(t.Context(), "SELECT pg_sleep($1)", dawdle.Seconds())
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	if one := transactions * dawdle; took > one/2 {
		t.Errorf("%d transactions took %v; one after the other they take %v", transactions, took, one)
	}
	for p := range 4 {
		if n := len(s.ids(t, "orders", p)); n != transactions {
			t.Errorf("partition %d has %d events", p, n)
		}
	}
	t.Logf("%d transactions that dawdle %v took %v", transactions, dawdle, took)
}

func TestSettleTx(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	s.create(t, "orders", 1, "g")
	if _, err := s.pool.Exec(t.Context(), "CREATE TABLE effects (id text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "orders", pinned(0, "1", "2")...); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(l *rheo.Lease, fail error) error {
		return pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", l.ID); err != nil {
				return err
			}
			results, err := postgres.SettleTx(t.Context(), s.Instance, tx, rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck})
			return errors.Join(append(results, err, fail)...)
		})
	}
	if err := handle(leases[0], errors.New("on second thoughts")); err == nil {
		t.Fatal("no error")
	}
	if err := handle(leases[0], nil); err != nil {
		t.Fatal(err)
	}
	if err := handle(leases[0], nil); err == nil {
		t.Fatal("an effect was had twice")
	}
	if _, err := s.Replay(t.Context(), "orders", "g", rheo.ReplaySelection{FromSequence: 2}); err != nil {
		t.Fatal(err)
	}
	if err := handle(leases[1], nil); !errors.Is(err, rheo.ErrStaleLease) {
		t.Fatalf("a fenced lease: %v", err)
	}
	var effects int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&effects); err != nil || effects != 1 {
		t.Errorf("%d effects, %v; want 1", effects, err)
	}
	lag, err := s.Lag(t.Context(), "orders", "g")
	if err != nil || lag.Lag != 1 {
		t.Errorf("lag %d, %v; want 1", lag.Lag, err)
	}
}

func TestHostTransactionIsChecked(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	s.create(t, "orders", 1)
	tx := s.begin(t)
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing to keep
	_, err := postgres.AppendTx(t.Context(), s.Instance, tx, "nowhere", rheo.Event{})
	if !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Errorf("a missing stream: %v", err)
	}
	if _, err = postgres.AppendTx(t.Context(), s.Instance, tx, "orders", rheo.Event{Payload: []byte("{")}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("a bad payload: %v", err)
	}
	s.appendTx(t, tx, "orders", rheo.Event{}) // the transaction is none the worse for it
	if _, err = postgres.AppendTx(t.Context(), s.Instance, nil, "orders", rheo.Event{}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("no transaction: %v", err)
	}
}
