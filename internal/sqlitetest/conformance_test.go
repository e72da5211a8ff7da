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

// conformance keeps the pool of each backend, to open another over it.
func conformance(s setting) backendtest.Config {
	var pools sync.Map // rheo.Backend → *sql.DB
	open := func(t *testing.T, db *sql.DB, clock rheo.Clock) rheo.Backend {
		t.Helper()
		b := newBackend(t, db, &sqlite.Options{Clock: clock})
		pools.Store(b, db)
		return b
	}
	return backendtest.Config{
		Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
			t.Helper()
			return open(t, s.open(t, file(t)), clock)
		},
		Reopen: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			db, _ := pools.Load(b)
			return open(t, db.(*sql.DB), clock)
		},
	}
}
