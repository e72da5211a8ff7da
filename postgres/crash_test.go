package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// load is writers and consumers at work, and what was confirmed to them.
type load struct {
	*store
	stop chan struct{}
	all  sync.WaitGroup

	mu       sync.Mutex
	appended map[string]bool
	acked    map[string]int
	handled  atomic.Int64 // by the group runtime
}

const loadStream, loadLease = "orders", 2 * time.Second

func startLoad(t *testing.T, s *store) *load {
	t.Helper()
	l := &load{store: s, stop: make(chan struct{}), appended: make(map[string]bool), acked: make(map[string]int)}
	s.create(t, loadStream, 4, "counted", "runtime")
	for w := range 4 {
		l.all.Go(func() { l.write(t, w) })
	}
	for range 3 {
		l.all.Go(func() { l.consume(t) })
	}
	return l
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// expected reports whether an error is one that an outage may cause.
func expected(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, rheo.ErrUnavailable) && !errors.Is(err, rheo.ErrAmbiguous) {
		t.Errorf("%s: %v", what, err)
	}
}

func (l *load) write(t *testing.T, w int) {
	t.Helper()
	for i := 0; !l.stopped(); i++ {
		events := make([]rheo.Event, 5)
		for j := range events {
			events[j] = rheo.Event{ID: fmt.Sprint(w, "-", i, "-", j), Payload: []byte(`{"x": 1}`)}
		}
		for !l.stopped() {
			_, err := l.Append(t.Context(), loadStream, events...)
			if err == nil {
				l.mu.Lock()
				for _, e := range events {
					l.appended[e.ID] = true
				}
				l.mu.Unlock()
				break
			}
			expected(t, "append", err)
		}
	}
}

// consume acks, and counts what the store confirms, until there is nothing left.
func (l *load) consume(t *testing.T) {
	t.Helper()
	for {
		done := l.stopped()
		leases, err := l.Fetch(t.Context(), loadStream, "counted", rheo.FetchOptions{Max: 50, LeaseDuration: loadLease})
		if err != nil {
			expected(t, "fetch", err)
			continue
		}
		if len(leases) == 0 {
			lag, err := l.Lag(t.Context(), loadStream, "counted")
			if err == nil && lag.Lag == 0 && done {
				return
			}
			continue
		}
		settlements := make([]rheo.Settlement, len(leases))
		for i := range leases {
			settlements[i] = rheo.Settlement{Lease: leases[i], Outcome: rheo.OutcomeAck}
		}
		results, err := l.Settle(t.Context(), settlements...)
		if err != nil {
			expected(t, "settle", err)
			continue
		}
		l.mu.Lock()
		for i, err := range results {
			if err == nil {
				l.acked[leases[i].ID]++
			} else if !errors.Is(err, rheo.ErrStaleLease) {
				t.Errorf("settle: %v", err)
			}
		}
		l.mu.Unlock()
	}
}

// check holds the log and the group to what was confirmed.
func (l *load) check(t *testing.T) {
	t.Helper()
	inLog := make(map[string]bool)
	for p := range 4 {
		for _, id := range l.ids(t, loadStream, p) {
			if inLog[id] {
				t.Errorf("%s is in the log twice", id)
			}
			inLog[id] = true
		}
	}
	for id := range l.appended {
		if !inLog[id] {
			t.Errorf("%s was confirmed, and is not in the log", id)
		}
	}
	for id, n := range l.acked {
		if n > 1 {
			t.Errorf("%s was acked %d times", id, n)
		}
	}
	t.Logf("%d events in the log, %d confirmed to their writers, %d acks confirmed", len(inLog), len(l.appended), len(l.acked))
}

// runGroup runs the runtime on the other group until it has acked everything.
func (l *load) runGroup(ctx context.Context, t *testing.T) {
	t.Helper()
	group, err := rheo.NewGroup(l.Instance, rheo.GroupOptions{
		Stream: loadStream, Group: "runtime", Concurrency: 4, LeaseDuration: loadLease,
		Handler: func(context.Context, *rheo.Delivery) error { l.handled.Add(1); return nil },
	})
	if err != nil {
		t.Error(err)
		return
	}
	if err := group.Run(ctx); err != nil {
		t.Errorf("the group ended by itself: %v", err)
	}
}

// eventually polls until ok, in real time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

func (l *load) confirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.appended)
}

func TestKillOfPostgres(t *testing.T) {
	t.Parallel()
	cluster := testservers.OwnPostgres(t)
	s := openStore(t, cluster.Database(t), postgres.Options{}, nil)
	l := startLoad(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.runGroup(ctx, t) })
	for range 2 {
		before := l.confirmed()
		eventually(t, "500 events more", func() bool { return l.confirmed() > before+500 })
		cluster.Kill(t)
		cluster.Restart(t)
	}
	before := l.confirmed()
	eventually(t, "appends go on", func() bool { return l.confirmed() > before+100 })
	close(l.stop)
	l.all.Wait()
	eventually(t, "the runtime has caught up", func() bool {
		lag, err := s.Lag(t.Context(), loadStream, "runtime")
		return err == nil && lag.Lag == 0
	})
	cancel()
	running.Wait()
	l.check(t)
}

// A dump taken while groups are live goes on in a fresh cluster.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	from := testservers.Postgres(t)
	s := openStore(t, from.Database(t), postgres.Options{}, nil)
	l := startLoad(t, s)
	eventually(t, "some events", func() bool { return l.confirmed() > 300 })
	tx := s.begin(t)
	s.appendTx(t, tx, loadStream, pinned(0, "put aside")...)
	commit(t, tx)
	file := filepath.Join(t.TempDir(), "dump.sql")
	if out, err := from.Run(t.Context(), "pg_dump", "--file", file, s.url); err != nil {
		t.Fatalf("pg_dump: %v: %s", err, out)
	}
	close(l.stop)
	l.all.Wait()

	to := testservers.OwnPostgres(t)
	url := to.Database(t)
	if out, err := to.Run(t.Context(), "psql", "-d", url, "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", file); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	restored := &load{store: openStore(t, url, postgres.Options{}, nil), stop: make(chan struct{}), acked: make(map[string]int)}
	events, err := restored.Append(t.Context(), loadStream, pinned(0, "after the restore")...)
	if err != nil || events[0].Duplicate {
		t.Fatalf("append: %+v, %v", events, err)
	}
	close(restored.stop)
	restored.consume(t) // what was in flight expires, and comes again
	restored.check(t)
	lag, err := restored.Lag(t.Context(), loadStream, "runtime")
	if err != nil || lag.Lag == 0 {
		t.Errorf("the group that never ran has lag %d, %v", lag.Lag, err)
	}
}

func TestConnectionLostInTheMiddle(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t, pgx.QueryExecModeExec) // each statement is sent at once, none prepared before
	ctx := t.Context()
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(ctx, "orders", numbered(10)...); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 4})
	if err != nil {
		t.Fatal(err)
	}
	calls := []struct {
		name  string
		write bool
		do    func() error
	}{
		{"read", false, func() error { _, err := s.Read(ctx, "orders", 0, 0, 1); return err }},
		{"query", false, func() error { _, err := s.Query(ctx, "orders", rheo.Query{}); return err }},
		{"lag", false, func() error { _, err := s.Lag(ctx, "orders", "g"); return err }},
		{"append", true, func() error { _, err := s.Append(ctx, "orders", rheo.Event{ID: "perhaps"}); return err }},
		{"settle", true, func() error { return s.Ack(ctx, leases[0]) }},
		{"renew", true, func() error { _, err := s.Renew(ctx, time.Minute, leases[1]); return err }},
		{"create stream", true, func() error { return s.CreateStream(ctx, "another", rheo.StreamConfig{}) }},
	}
	for _, c := range calls {
		want := rheo.ErrUnavailable
		if c.write {
			want = rheo.ErrAmbiguous
		}
		// There is a connection, and the ledger is known.
		if _, err := s.Renew(ctx, time.Minute, leases[3]); err != nil {
			t.Fatal(err)
		}
		proxy.Swallow(true)
		if err := c.do(); !errors.Is(err, want) {
			t.Errorf("%s, its answer lost: %v, want %v", c.name, err, want)
		}
		proxy.Swallow(false)
		proxy.Cut()
		proxy.Refuse(true)
		s.pool.Reset()
		if err := c.do(); !errors.Is(err, rheo.ErrUnavailable) {
			t.Errorf("%s, without a server: %v", c.name, err)
		}
		proxy.Refuse(false)
	}
	result, err := s.Append(ctx, "orders", rheo.Event{ID: "perhaps"})
	if err != nil || !result[0].Duplicate {
		t.Errorf("the append whose answer was lost, again: %+v, %v", result, err)
	}
	if err := s.Ack(ctx, leases[0]); !errors.Is(err, rheo.ErrStaleLease) {
		t.Errorf("the ack whose answer was lost, again: %v", err)
	}
	if err := s.Ack(ctx, leases[1:]...); err != nil {
		t.Errorf("the others: %v", err)
	}
}

// A context that ends is obeyed soon, whatever the server does.
func TestContextEndsWhileAPartitionIsLocked(t *testing.T) {
	t.Parallel()
	s := openStore(t, testservers.Postgres(t).Database(t), postgres.Options{}, func(c *pgxpool.Config) { c.MaxConns = 4 })
	s.create(t, "orders", 1, "g")
	tx := s.begin(t)
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing to keep
	if _, err := tx.Exec(t.Context(), "SELECT * FROM rheo_partitions FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 3 { // one is under way, the others wait to be the next
		all.Go(func() {
			start := time.Now()
			_, err := s.Append(ctx, "orders", rheo.Event{})
			expected(t, "append", err)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	all.Wait()
}
