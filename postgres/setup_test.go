package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// newPool opens a pool as a host would; adjust may change its configuration.
func newPool(tb testing.TB, url string, adjust func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	config.MaxConns = 16
	if adjust != nil {
		adjust(config)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func newBackend(tb testing.TB, pool *pgxpool.Pool, o postgres.Options) *postgres.Backend {
	tb.Helper()
	b, err := postgres.New(pool, &o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// store is an instance on a database of its own, with its schema.
type store struct {
	*rheo.Instance
	backend *postgres.Backend
	pool    *pgxpool.Pool
	url     string
}

func newStore(tb testing.TB, o postgres.Options) *store {
	tb.Helper()
	return openStore(tb, testservers.Postgres(tb).Database(tb), o, nil)
}

func openStore(tb testing.TB, url string, o postgres.Options, adjust func(*pgxpool.Config)) *store {
	tb.Helper()
	s := &store{url: url, pool: newPool(tb, url, adjust)}
	s.backend = newBackend(tb, s.pool, o)
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

// prefixes gives every test case tables of its own in a shared database.
var prefixes atomic.Int64

func freshPrefix() string { return fmt.Sprintf("t%d_", prefixes.Add(1)) }

func simpleProtocol(c *pgxpool.Config) {
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
}

func withoutStatements(c *pgxpool.Config) {
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
}

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
		events[i] = rheo.Event{Type: "numbered", Payload: []byte(fmt.Sprintf(`{"n":%d}`, i))}
	}
	return events
}
