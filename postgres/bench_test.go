package postgres_test

import (
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

func BenchmarkBackend(b *testing.B) {
	cluster := testservers.Postgres(b)
	backendtest.Benchmark(b, func(b *testing.B) rheo.Backend {
		b.Helper()
		return newBackend(b, newPool(b, cluster.Database(b), nil), postgres.Options{})
	})
}
