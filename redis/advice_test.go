package redis_test

import (
	"strings"
	"testing"

	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

func TestAdvise(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	advised := func(what string, want ...string) {
		t.Helper()
		advice, err := s.backend.Advise(t.Context())
		if err != nil || len(advice) != len(want) {
			t.Fatalf("%s: %q, %v", what, advice, err)
		}
		for i := range want {
			if !strings.Contains(advice[i], want[i]) {
				t.Errorf("%s: %q, want something about %q", what, advice[i], want[i])
			}
		}
	}
	advised("a server as it should be")
	s.do(t, "config", "set", "appendfsync", "no")
	advised("without fsync", "appendfsync is no")
	s.do(t, "config", "set", "appendfsync", "always")
	s.do(t, "config", "set", "maxmemory-policy", "allkeys-lru")
	advised("with eviction", "maxmemory-policy is allkeys-lru")
	s.do(t, "config", "set", "appendonly", "no")
	advised("without a file", "maxmemory-policy", "nothing is written to disk")
	s.do(t, "config", "set", "save", "60 1")
	s.do(t, "config", "set", "maxmemory-policy", "noeviction")
	advised("with snapshots", "only snapshots")
	s.do(t, "config", "set", "save", "")
	s.do(t, "config", "set", "appendonly", "yes")
	s.do(t, "replicaof", "127.0.0.1", "1")
	advised("a replica", "replica")
	s.do(t, "replicaof", "no", "one")
}

func TestAdviseOfACluster(t *testing.T) {
	t.Parallel()
	nodes := testservers.RedisCluster(t)
	s := openStore(t, newClusterClient(t, nodes), rheoredis.Options{})
	if advice, err := s.backend.Advise(t.Context()); err != nil || len(advice) > 0 {
		t.Errorf("%q, %v", advice, err)
	}
}
