package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

func TestReplica(t *testing.T) {
	t.Parallel()
	master := testservers.OwnRedis(t)
	host, port, _ := net.SplitHostPort(master.Address())
	replica := testservers.OwnRedis(t, "replicaof", host+" "+port, "repl-diskless-sync-delay", "0")
	s := openStore(t, newClient(t, master.URL()), rheoredis.Options{})
	calls := s.calls(t.Context(), s.filled(t))
	s.do(t, "wait", 1, 10_000)
	there := openStore(t, newClient(t, replica.URL()), rheoredis.Options{Prefix: s.prefix})
	eventually(t, "the replica has the stream", func() bool {
		info, err := there.StreamInfo(t.Context(), "orders")
		return err == nil && info.Events() == 10
	})
	if events, err := there.Read(t.Context(), "orders", 0, 0, 10); err != nil || len(events) != 10 {
		t.Errorf("read: %d, %v", len(events), err)
	}
	reading := []string{"stream info", "read", "query", "group info"}
	refuses(t, there.calls(t.Context(), s.fetch(t, "g", 1)[0]), rheo.ErrUnavailable, "replica", reading...)
	for _, name := range reading {
		if err := calls[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that is full takes no events, and still lets go of those it has.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	ctx := t.Context()
	lease := s.filled(t)
	before := s.do(t, "hgetall", s.key("meta"))
	s.do(t, "config", "set", "maxmemory", "1")
	_, err := s.Append(ctx, "orders", numbered(10)...)
	if !errors.Is(err, rheo.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("append: %v", err)
	}
	if err := s.CreateStream(ctx, "more", rheo.StreamConfig{}); !errors.Is(err, rheo.ErrUnavailable) {
		t.Errorf("create stream: %v", err)
	}
	if after := s.do(t, "hgetall", s.key("meta")); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("meta is %v, was %v", after, before)
	}
	leases := s.fetch(t, "g", 100)
	if len(leases) != 6 {
		t.Fatalf("fetched %v", sequences(leases))
	}
	results, err := s.Settle(ctx, rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck},
		rheo.Settlement{Lease: leases[0], Outcome: rheo.OutcomeNack, Reason: "no"}, rheo.Settlement{Lease: leases[1], Outcome: rheo.OutcomeReject})
	if err != nil || errors.Join(results...) != nil {
		t.Errorf("settle: %v, %v", results, err)
	}
	if again := s.fetch(t, "g", 100); len(again) != 1 || again[0].LastReason != "no" {
		t.Errorf("fetched %v", sequences(again))
	}
	s.do(t, "config", "set", "maxmemory", "0")
	if _, err := s.Append(ctx, "orders", numbered(10)...); err != nil {
		t.Errorf("append: %v", err)
	}
}

func TestRightsAndPasswords(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	calls := s.calls(t.Context(), s.filled(t))
	s.do(t, "acl", "setuser", "weak", "on", ">weak", "~*", "+@read", "+ping", "+hello", "+client")
	as := func(user, password string) *store {
		client := openClient(t, redis.NewClient(&redis.Options{Addr: server.Address(), Username: user, Password: password}))
		b := newBackend(t, client, rheoredis.Options{Prefix: s.prefix})
		in, err := rheo.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close() })
		return &store{Instance: in, backend: b, client: client, prefix: s.prefix}
	}
	weak := as("weak", "weak")
	refuses(t, weak.calls(t.Context(), s.fetch(t, "g", 1)[0]), rheo.ErrFailed, "ACL", "stream info", "read", "query")
	if err := weak.EnsureSchema(t.Context()); !errors.Is(err, rheo.ErrFailed) {
		t.Errorf("ensure schema: %v", err)
	}
	wrong := as("weak", "wrong")
	refuses(t, map[string]func() error{
		"ping": func() error { return wrong.Ping(t.Context()) }, "streams": func() error { _, err := wrong.Streams(t.Context()); return err },
		"append": wrong.calls(t.Context(), nil)["append"],
	}, rheo.ErrFailed, "password")
	s.do(t, "config", "set", "requirepass", "secret")
	refuses(t, map[string]func() error{"ping": func() error { return as("", "").Ping(t.Context()) }}, rheo.ErrFailed, "password")
	_ = calls
}

// The rights that docs/guides/redis.md names are enough for everything.
func TestRightsOfTheGuide(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	admin := newClient(t, server.URL())
	rights := []any{"acl", "setuser", "rheo", "on", ">secret", "~app:*", "-@all"}
	for _, right := range guideRights(t) {
		rights = append(rights, right)
	}
	if err := admin.Do(t.Context(), rights...).Err(); err != nil {
		t.Fatal(err)
	}
	client := openClient(t, redis.NewClient(&redis.Options{Addr: server.Address(), Username: "rheo", Password: "secret"}))
	s := openStore(t, client, rheoredis.Options{Prefix: "app"})
	ctx := t.Context()
	calls := s.calls(ctx, s.filled(t))
	hints, stop := s.backend.Watch("orders")
	defer stop()
	awaitHint(t, "listening began", hints)
	for _, name := range []string{"stream info", "append", "read", "query", "fetch", "settle", "group info", "replay", "reset"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, l := range s.fetch(t, "g", 3) {
		if err := s.Reject(ctx, "no", l); err != nil {
			t.Error(err)
		}
	}
	for d, err := range s.DeadLetters(ctx, "orders", "g") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Replay(ctx, "orders", "g", rheo.ReplaySelection{IDs: []string{d.EventID}}); err != nil {
			t.Error(err)
		}
	}
	if err := s.CreateGroup(ctx, "orders", "at", rheo.GroupConfig{Start: rheo.StartTime(time.Now())}); err != nil {
		t.Error(err)
	}
	if _, err := s.Streams(ctx); err != nil {
		t.Error(err)
	}
	if _, err := s.Groups(ctx, "orders"); err != nil {
		t.Error(err)
	}
	if _, err := s.backend.Advise(ctx); err != nil {
		t.Error(err)
	}
}

func TestKeysOfAnother(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	calls := s.calls(t.Context(), s.filled(t))
	s.do(t, "set", s.key("meta"), "something")
	refuses(t, calls, rheo.ErrFailed, "prefix", "settle")
	s.do(t, "set", s.key("g:g"), "something")
	refuses(t, calls, rheo.ErrFailed, "prefix")
}

// liar is a server that answers every script alike.
func liar(t *testing.T, answer string) *redis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { lie(conn, answer) })
		}
	})
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), Protocol: 2})
	t.Cleanup(func() {
		_ = client.Close()
		_ = listener.Close()
		all.Wait()
	})
	return client
}

func lie(conn net.Conn, answer string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		head, err := in.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		var words []string
		for range n {
			size, err := in.ReadString('\n')
			if err != nil {
				return
			}
			length, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
			word := make([]byte, length+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			words = append(words, string(word[:length]))
		}
		reply := "+OK\r\n"
		switch strings.ToLower(words[0]) {
		case "evalsha":
			reply = "-" + answer + "\r\n"
		case "hello": // as before Redis 6
			reply = "-ERR unknown command\r\n"
		}
		if _, err := fmt.Fprint(conn, reply); err != nil {
			return
		}
	}
}

func TestStatesOfAServer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{
		"LOADING Redis is loading the dataset in memory":           rheo.ErrUnavailable,
		"BUSY Redis is busy running a script":                      rheo.ErrUnavailable,
		"CLUSTERDOWN Hash slot not served":                         rheo.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down":                      rheo.ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":  rheo.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write":             rheo.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots":        rheo.ErrUnavailable,
		"OOM command not allowed when used memory > 'maxmemory'":   rheo.ErrUnavailable,
		"READONLY You can't write against a read only replica.":    rheo.ErrUnavailable,
		"NOPERM this user has no permissions":                      rheo.ErrFailed,
		"WRONGTYPE Operation against a key holding the wrong kind": rheo.ErrFailed,
		"ERR Error running script":                                 rheo.ErrFailed,
	} {
		b := newBackend(t, liar(t, answer), rheoredis.Options{})
		if err := b.EnsureSchema(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), answer) {
			t.Errorf("%s: %v, want %v", answer, err, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// behindProxy opens a store whose connections lead through a proxy.
func behindProxy(t *testing.T) (*store, *testservers.Proxy) {
	t.Helper()
	server := testservers.OwnRedis(t)
	proxy := testservers.NewProxy(t, server.Address())
	o, err := redis.ParseURL(proxy.URL(t, server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	o.PoolSize, o.MaxRetries, o.MaxRetryBackoff = 1, 3, time.Millisecond
	return openStore(t, openClient(t, redis.NewClient(o)), rheoredis.Options{WithoutBlockingReads: true}), proxy
}

// A write whose answer was lost is ambiguous, and was sent once, although the host's
// client repeats what it thinks has failed.
func TestConnectionLostInTheMiddle(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t)
	ctx := t.Context()
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(ctx, "orders", numbered(10)...); err != nil {
		t.Fatal(err)
	}
	leases := s.fetch(t, "g", 5)
	if err := s.Ack(ctx, leases[4]); err != nil {
		t.Fatal(err)
	}
	leases = leases[:4]
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
		{"renew", true, func() error {
			_, err := s.Renew(ctx, time.Minute, leases[1])
			return err
		}},
		{"fetch", true, func() error { _, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{}); return err }},
		{"reset", true, func() error { return s.ResetGroup(ctx, "orders", "other", rheo.ResetOptions{Confirm: true}) }},
	}
	if err := s.CreateGroup(ctx, "orders", "other", rheo.GroupConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := s.ResetGroup(ctx, "orders", "other", rheo.ResetOptions{Confirm: true}); err != nil { // every script is known
		t.Fatal(err)
	}
	for _, c := range calls {
		want := rheo.ErrUnavailable
		if c.write {
			want = rheo.ErrAmbiguous
		}
		if _, err := s.Renew(ctx, time.Minute, leases[3]); err != nil { // there is a connection
			t.Fatal(err)
		}
		before := s.scriptsRun(t)
		proxy.Swallow(true)
		if err := c.do(); !errors.Is(err, want) {
			t.Errorf("%s, its answer lost: %v, want %v", c.name, err, want)
		}
		proxy.Swallow(false)
		if n := s.scriptsRun(t) - before; c.write && n != 1 {
			t.Errorf("%s was sent %d times", c.name, n)
		}
		proxy.Cut()
		proxy.Refuse(true)
		if err := c.do(); !errors.Is(err, rheo.ErrUnavailable) && !(c.write && errors.Is(err, rheo.ErrAmbiguous)) {
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

// scriptsRun is how many scripts the server has run so far.
func (s *store) scriptsRun(t *testing.T) int {
	t.Helper()
	stats := s.do(t, "info", "commandstats").(string)
	n := 0
	for line := range strings.Lines(stats) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.Atoi(count)
		}
	}
	return n
}

// A context that ends is obeyed soon, whatever the server does.
func TestContextEndsWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	lease := s.filled(t)
	s.do(t, "client", "pause", "2500", "all")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for name, call := range s.calls(ctx, lease) {
		all.Go(func() {
			start := time.Now()
			err := call()
			if !errors.Is(err, rheo.ErrUnavailable) && !errors.Is(err, rheo.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s took %v", name, took)
			}
		})
	}
	all.Wait()
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
