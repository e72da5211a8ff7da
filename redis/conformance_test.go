package redis_test

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// conform runs the suite on one server or cluster, each case under a prefix of its own.
func conform(t *testing.T, client redis.UniversalClient, o rheoredis.Options) {
	t.Helper()
	var options sync.Map // backend → its options, to open the same keys again
	open := func(t *testing.T, o rheoredis.Options) rheo.Backend {
		t.Helper()
		b := newBackend(t, client, o)
		options.Store(b, o)
		return b
	}
	again := func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
		t.Helper()
		found, _ := options.Load(b)
		o := found.(rheoredis.Options)
		o.Clock = clock
		return open(t, o)
	}
	config := backendtest.Config{
		Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
			t.Helper()
			o := o
			o.Prefix, o.Clock = freshPrefix(), clock
			return open(t, o)
		},
		Reopen: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, b, clock)
		},
		Join: again,
	}
	backendtest.Run(t, config)
	backendtest.RunModel(t, config)
}

func TestConformance(t *testing.T) {
	conform(t, newClient(t, testservers.Redis(t).URL()), rheoredis.Options{})
}

func TestConformanceWithoutBlockingReads(t *testing.T) {
	conform(t, newClient(t, testservers.Redis(t).URL()), rheoredis.Options{WithoutBlockingReads: true})
}

func TestConformanceOnACluster(t *testing.T) {
	conform(t, newClusterClient(t, testservers.RedisCluster(t)), rheoredis.Options{})
}
