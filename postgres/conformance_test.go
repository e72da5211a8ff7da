package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// conform runs the suite on one database, each case on tables of its own.
func conform(t *testing.T, pool *pgxpool.Pool, o postgres.Options) {
	t.Helper()
	var options sync.Map // backend → its options, to open the same tables again
	open := func(t *testing.T, o postgres.Options) rheo.Backend {
		t.Helper()
		b := newBackend(t, pool, o)
		options.Store(b, o)
		return b
	}
	again := func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
		t.Helper()
		found, _ := options.Load(b)
		o := found.(postgres.Options)
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
	conform(t, newPool(t, testservers.Postgres(t).Database(t), nil), postgres.Options{})
}

func TestConformanceWithoutNotify(t *testing.T) {
	conform(t, newPool(t, testservers.Postgres(t).Database(t), nil), postgres.Options{WithoutNotify: true, PayloadIndex: true})
}

func TestConformanceSimpleProtocol(t *testing.T) {
	conform(t, newPool(t, testservers.Postgres(t).Database(t), simpleProtocol), postgres.Options{})
}

func TestConformanceThroughPooler(t *testing.T) {
	url := testservers.PgBouncer(t, testservers.Postgres(t).Database(t))
	conform(t, newPool(t, url, withoutStatements), postgres.Options{WithoutNotify: true})
}
