package sqlitetest_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/sqlite"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			config := conformance(s)
			backendtest.Run(t, config)
			backendtest.RunModel(t, config)
		})
	}
}

// A database is what a backend was opened over.
type database struct {
	path string
	pool *sql.DB
}

// conformance keeps the database of each backend, to open another over it.
func conformance(s setting) backendtest.Config {
	var databases sync.Map // rheo.Backend → database
	open := func(t *testing.T, d database, clock rheo.Clock) rheo.Backend {
		t.Helper()
		b := newBackend(t, d.pool, &sqlite.Options{Clock: clock})
		databases.Store(b, d)
		return b
	}
	of := func(b rheo.Backend) database {
		d, _ := databases.Load(b)
		return d.(database)
	}
	return backendtest.Config{
		Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
			t.Helper()
			path := file(t)
			return open(t, database{path, s.open(t, path)}, clock)
		},
		Reopen: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, of(b), clock)
		},
		Join: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			path := of(b).path
			return open(t, database{path, s.open(t, path)}, clock)
		},
	}
}
