package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// load is writers and consumers at work, and what was confirmed to them.
type load struct {
	*store
	partitions int
	stop       chan struct{}
	all        sync.WaitGroup

	mu       sync.Mutex
	appended map[string]bool
	acked    map[string]int
	handled  atomic.Int64 // by the group runtime
}

const loadLease = 2 * time.Second

func startLoad(t *testing.T, s *store, partitions int) *load {
	t.Helper()
	l := &load{
		store: s, partitions: partitions, stop: make(chan struct{}),
		appended: make(map[string]bool), acked: make(map[string]int),
	}
	s.create(t, "orders", partitions, "counted", "runtime")
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

// expected reports an error that is none of those that an outage may cause.
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
			_, err := l.Append(t.Context(), "orders", events...)
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
		leases, err := l.Fetch(t.Context(), "orders", "counted", rheo.FetchOptions{Max: 50, LeaseDuration: loadLease})
		if err != nil {
			expected(t, "fetch", err)
			continue
		}
		if len(leases) == 0 {
			lag, err := l.Lag(t.Context(), "orders", "counted")
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
	for p := range l.partitions {
		next := int64(1)
		for after := int64(0); ; {
			events, err := l.Read(t.Context(), "orders", p, after, rheo.MaxBatch)
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				if events[i].Sequence != next {
					t.Fatalf("partition %d: sequence %d, want %d", p, events[i].Sequence, next)
				}
				next++
				if inLog[events[i].ID] {
					t.Errorf("%s is in the log twice", events[i].ID)
				}
				inLog[events[i].ID] = true
			}
			if after = next - 1; len(events) < rheo.MaxBatch {
				break
			}
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

// runGroup runs the runtime on the other group until the context ends.
func (l *load) runGroup(ctx context.Context, t *testing.T) {
	t.Helper()
	group, err := rheo.NewGroup(l.Instance, rheo.GroupOptions{
		Stream: "orders", Group: "runtime", Concurrency: 4, LeaseDuration: loadLease,
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

func (l *load) confirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.appended)
}

// through lets the load work while trouble comes, and checks what is left of it.
func (l *load) through(t *testing.T, trouble func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.runGroup(ctx, t) })
	before := l.confirmed()
	eventually(t, "some events", func() bool { return l.confirmed() > before+500 })
	trouble()
	before = l.confirmed()
	eventually(t, "appends go on", func() bool { return l.confirmed() > before+100 })
	close(l.stop)
	l.all.Wait()
	eventually(t, "the runtime has caught up", func() bool {
		lag, err := l.Lag(t.Context(), "orders", "runtime")
		return err == nil && lag.Lag == 0
	})
	cancel()
	running.Wait()
	l.check(t)
}

func TestKillOfRedis(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t, "appendfsync", "always")
	l := startLoad(t, openStore(t, newClient(t, server.URL()), rheoredis.Options{}), 4)
	l.through(t, func() {
		for range 2 {
			server.Kill(t)
			server.Restart(t)
			before := l.confirmed()
			eventually(t, "500 events more", func() bool { return l.confirmed() > before+500 })
		}
	})
}

// A cluster loses the server of a third of the partitions, which comes back with what it
// had.
func TestKillOfAMaster(t *testing.T) {
	t.Parallel()
	nodes := testservers.OwnRedisCluster(t, 0, "appendfsync", "always")
	l := startLoad(t, openStore(t, newClusterClient(t, nodes), rheoredis.Options{}), 8)
	l.spread(t, 3)
	l.through(t, func() {
		for _, server := range nodes.Masters[1:] {
			server.Kill(t)
			server.Restart(t)
		}
	})
}

// A replica takes the place of a master for good. Its writers wait for it, so that
// nothing that was confirmed is lost with the master.
func TestReplacedMaster(t *testing.T) {
	t.Parallel()
	nodes := testservers.OwnRedisCluster(t, 1, "appendfsync", "always")
	client := openClient(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addresses()}))
	l := startLoad(t, openStore(t, client, rheoredis.Options{}), 8)
	l.spread(t, 3)
	first, replica := nodes.Masters[0], nodes.Replicas[0]
	l.through(t, func() {
		// Replication is asynchronous: hold the master's clients, let the replica catch
		// up, and only then kill it.
		for _, command := range [][]string{{"CLIENT", "PAUSE", "60000", "WRITE"}, {"WAIT", "1", "10000"}} {
			if out, err := first.Run(t.Context(), command...); err != nil {
				t.Fatalf("%v: %s, %v", command, out, err)
			}
		}
		inStep(t, first, replica)
		first.Kill(t)
		eventually(t, "the replica is a master", func() bool {
			out, err := replica.Run(t.Context(), "ROLE")
			return err == nil && len(out) >= 6 && out[:6] == "master"
		})
	})
}

// inStep waits until the replica has all that the master had, which takes no writes.
func inStep(t *testing.T, master, replica *testservers.RedisServer) {
	t.Helper()
	offset := func(s *testservers.RedisServer, field string) string {
		out, err := s.Run(t.Context(), "INFO", "replication")
		if err != nil {
			t.Fatal(err)
		}
		return infoField(out, field)
	}
	eventually(t, "the replica is in step", func() bool {
		return offset(master, "master_repl_offset") == offset(replica, "slave_repl_offset")
	})
}

// spread checks that the stream's partitions lie on that many masters.
func (l *load) spread(t *testing.T, masters int) {
	t.Helper()
	places := make(map[string]bool)
	for p := range l.partitions {
		key := fmt.Sprintf("%s:{orders:%d}:log", l.prefix, p)
		node, err := l.client.(*redis.ClusterClient).MasterForKey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		places[node.Options().Addr] = true
	}
	if len(places) != masters {
		t.Errorf("the partitions lie on %d masters, want %d", len(places), masters)
	}
}
