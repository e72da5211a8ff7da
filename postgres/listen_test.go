package postgres_test

import (
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// awaitHint fails if no hint comes within a time that is far above what one takes.
func awaitHint(t *testing.T, what string, hints <-chan struct{}) {
	t.Helper()
	const patience = 20 * time.Second
	select {
	case <-hints:
	case <-time.After(patience):
		t.Fatalf("no hint after %s", what)
	}
}

func (s *store) listeners(t *testing.T) (pids []int32) {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var pid int32
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestHintsFromAnotherProcess(t *testing.T) {
	t.Parallel()
	url := testservers.Postgres(t).Database(t)
	here, there := openStore(t, url, postgres.Options{}, nil), openStore(t, url, postgres.Options{}, nil)
	here.create(t, "orders", 1, "g")
	hints, stop := here.backend.Watch("orders")
	defer stop()
	awaitHint(t, "listening began", hints)
	deeds := map[string]func(){
		"an append": func() {
			if _, err := there.Append(t.Context(), "orders", rheo.Event{}); err != nil {
				t.Fatal(err)
			}
		},
		"a commit": func() {
			tx := there.begin(t)
			there.appendTx(t, tx, "orders", rheo.Event{})
			commit(t, tx)
		},
		"a nack": func() {
			leases, err := there.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := there.Nack(t.Context(), "", 0, leases...); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, what := range []string{"an append", "a commit", "a nack"} {
		deeds[what]()
		awaitHint(t, what, hints)
	}
	// The connection is lost: it is opened again, and hints go on.
	lost := here.listeners(t)
	if len(lost) != 1 {
		t.Fatalf("%d connections listen, want 1", len(lost))
	}
	if _, err := here.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", lost[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it listens again", func() bool { pids := here.listeners(t); return len(pids) == 1 && pids[0] != lost[0] })
	for len(hints) > 0 {
		<-hints
	}
	deeds["an append"]()
	awaitHint(t, "an append after the reconnect", hints)
}

func TestWithoutNotifyNothingListens(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{WithoutNotify: true})
	s.create(t, "orders", 1)
	hints, stop := s.backend.Watch("orders")
	defer stop()
	if _, err := s.Append(t.Context(), "orders", rheo.Event{}); err != nil {
		t.Fatal(err)
	}
	awaitHint(t, "an append of this process", hints)
	if n := len(s.listeners(t)); n != 0 {
		t.Errorf("%d connections listen", n)
	}
}
