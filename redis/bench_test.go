package redis_test

import (
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

func BenchmarkBackend(b *testing.B) {
	server := testservers.Redis(b)
	backendtest.Benchmark(b, func(b *testing.B) rheo.Backend {
		b.Helper()
		return newBackend(b, newClient(b, server.URL()), rheoredis.Options{Prefix: freshPrefix()})
	})
}
