package watermilltest_test

import (
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3"
	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/postgres"
	rheoredis "github.com/rheo-go/rheo/redis"
	"github.com/rheo-go/rheo/sqlite"
)

// both runs the suite on groups with and without order.
func both(t *testing.T, open func(t *testing.T) func(*testing.T) rheo.Backend, change func(*setting)) {
	t.Helper()
	for name, s := range map[string]setting{"unordered": unordered, "ordered": ordered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change(&s)
			run(t, s, open(t))
		})
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	both(t, func(*testing.T) func(*testing.T) rheo.Backend {
		backend := memory.New(nil)
		return func(*testing.T) rheo.Backend { return backend }
	}, func(*setting) {})
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T) func(*testing.T) rheo.Backend {
		t.Helper()
		store, err := embedded.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return func(*testing.T) rheo.Backend { return store }
	}, func(*setting) {})
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T) func(*testing.T) rheo.Backend {
		t.Helper()
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "rheo.db")+"?_journal_mode=WAL&_synchronous=FULL")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return opener(t, func() (rheo.Backend, error) { return sqlite.New(db, nil) })
	}, func(*setting) {})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T) func(*testing.T) rheo.Backend {
		t.Helper()
		return onPostgres(t, testservers.Postgres(t))
	}, func(*setting) {})
}

func onPostgres(t *testing.T, cluster *testservers.Cluster) func(*testing.T) rheo.Backend {
	t.Helper()
	config, err := pgxpool.ParseConfig(cluster.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return opener(t, func() (rheo.Backend, error) { return postgres.New(pool, nil) })
}

func TestRedis(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T) func(*testing.T) rheo.Backend {
		t.Helper()
		return onRedis(t, testservers.Redis(t))
	}, func(*setting) {})
}

var prefixes atomic.Int64

func onRedis(t *testing.T, server *testservers.RedisServer) func(*testing.T) rheo.Backend {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	prefix := fmt.Sprintf("rheo-%d-%d", time.Now().UnixNano(), prefixes.Add(1))
	return opener(t, func() (rheo.Backend, error) {
		return rheoredis.New(client, &rheoredis.Options{Prefix: prefix, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	})
}

// opener makes the schema, and returns how to open backends that end with the
// test that opens them.
func opener(t *testing.T, open func() (rheo.Backend, error)) func(*testing.T) rheo.Backend {
	t.Helper()
	one := func(t *testing.T) rheo.Backend {
		t.Helper()
		backend, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
		})
		return backend
	}
	if err := one(t).EnsureSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	return one
}
