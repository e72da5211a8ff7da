package redis_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// newClient opens a client as a host would.
func newClient(tb testing.TB, url string) *redis.Client {
	tb.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	return openClient(tb, redis.NewClient(o))
}

func newClusterClient(tb testing.TB, nodes *testservers.RedisNodes) *redis.ClusterClient {
	tb.Helper()
	return openClient(tb, redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addresses()}))
}

func openClient[C redis.UniversalClient](tb testing.TB, client C) C {
	tb.Helper()
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
	})
	return client
}

func newBackend(tb testing.TB, client redis.UniversalClient, o rheoredis.Options) *rheoredis.Backend {
	tb.Helper()
	b, err := rheoredis.New(client, &o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// store is an instance under a prefix of its own.
type store struct {
	*rheo.Instance
	backend *rheoredis.Backend
	client  redis.UniversalClient
	prefix  string
}

func newStore(tb testing.TB, o rheoredis.Options) *store {
	tb.Helper()
	return openStore(tb, newClient(tb, testservers.Redis(tb).URL()), o)
}

func openStore(tb testing.TB, client redis.UniversalClient, o rheoredis.Options) *store {
	tb.Helper()
	if o.Prefix == "" {
		o.Prefix = freshPrefix()
	}
	s := &store{client: client, prefix: o.Prefix, backend: newBackend(tb, client, o)}
	in, err := rheo.New(s.backend, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
	})
	s.Instance = in
	if err := in.EnsureSchema(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// prefixes gives every test case keys of its own on a shared server, that of the
// environment included, where other runs have left theirs.
var prefixes atomic.Int64

func freshPrefix() string { return fmt.Sprintf("test%d-%d", os.Getpid(), prefixes.Add(1)) }

// create makes a stream, and groups on it.
func (s *store) create(tb testing.TB, stream string, partitions int, groups ...string) {
	tb.Helper()
	if err := s.CreateStream(tb.Context(), stream, rheo.StreamConfig{Partitions: partitions}); err != nil {
		tb.Fatal(err)
	}
	for _, g := range groups {
		if err := s.CreateGroup(tb.Context(), stream, g, rheo.GroupConfig{}); err != nil {
			tb.Fatal(err)
		}
	}
}

// numbered returns n events with a number in their payload.
func numbered(n int) []rheo.Event {
	events := make([]rheo.Event, n)
	for i := range events {
		events[i] = rheo.Event{Type: "numbered", Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return events
}
