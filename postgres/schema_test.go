package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

func TestEnsureSchemaByTenAtOnce(t *testing.T) {
	t.Parallel()
	url := testservers.Postgres(t).Database(t)
	var all sync.WaitGroup
	for range 10 {
		b := newBackend(t, newPool(t, url, nil), postgres.Options{Prefix: "own schema.rheo_", PayloadIndex: true})
		all.Go(func() {
			if err := b.EnsureSchema(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := openStore(t, url, postgres.Options{Prefix: "own schema.rheo_"}, nil)
	s.create(t, "orders", 1)
}

func TestPrintedSchemaIsTheSchema(t *testing.T) {
	t.Parallel()
	c := testservers.Postgres(t)
	url := c.Database(t)
	options := postgres.Options{Prefix: `odd "schema.x_`, PayloadIndex: true}
	steps, err := postgres.Migrations(&options)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range steps {
		if out, err := c.Run(t.Context(), "psql", "-d", url, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", m.SQL); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, m.SQL)
		}
	}
	b := newBackend(t, newPool(t, url, nil), options)
	in, err := rheo.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.EnsureSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.CreateStream(t.Context(), "orders", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Append(t.Context(), "orders", rheo.Event{}); err != nil {
		t.Fatal(err)
	}
	if n := len(steps) - 1; n < 3 || steps[n-1].Version != n || steps[n].Name != "payload_index" {
		t.Errorf("the steps are numbered otherwise: %+v", steps)
	}
}

func TestSchemaFromTheFuture(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	if _, err := s.pool.Exec(t.Context(), "INSERT INTO rheo_migrations (version) VALUES (1000)"); err != nil {
		t.Fatal(err)
	}
	err := s.EnsureSchema(t.Context())
	if !errors.Is(err, rheo.ErrFailed) || !strings.Contains(err.Error(), "newer") || !strings.Contains(err.Error(), "1000") {
		t.Errorf("a schema from the future: %v", err)
	}
}

// mentions checks the sentinel of an error, and that its text helps.
func mentions(t *testing.T, what string, err, sentinel error, words ...string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%s: %v, want %v", what, err, sentinel)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q does not mention %s", what, err, word)
		}
	}
}

func TestBadSurroundings(t *testing.T) {
	t.Parallel()
	c := testservers.Postgres(t)
	url := c.Database(t)
	at := func(url string) *rheo.Instance {
		t.Helper()
		in, err := rheo.New(newBackend(t, newPool(t, url, nil), postgres.Options{WithoutNotify: true}), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close() })
		return in
	}
	ctx := t.Context()
	bare := at(url)
	_, err := bare.Append(ctx, "orders", rheo.Event{})
	mentions(t, "no schema", err, rheo.ErrFailed, "EnsureSchema", "rheo migrate")
	_, err = bare.Streams(ctx)
	mentions(t, "no schema", err, rheo.ErrFailed, "EnsureSchema")
	mentions(t, "no server", at("postgres://postgres@127.0.0.1:1/x?sslmode=disable").Ping(ctx), rheo.ErrUnavailable, "127.0.0.1")
	mentions(t, "no such database", at(strings.Replace(url, "test_", "missing_", 1)).EnsureSchema(ctx), rheo.ErrUnavailable, "does not exist")

	if err := bare.EnsureSchema(ctx); err != nil {
		t.Fatal(err)
	}
	if err := bare.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	role := fmt.Sprintf("weak_%d", prefixes.Add(1))
	if out, err := c.Run(ctx, "psql", "-d", url, "-XAtqc", "CREATE ROLE "+role+" LOGIN; GRANT SELECT ON rheo_streams, rheo_partitions, rheo_pending TO "+role); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	weak := at(strings.Replace(url, "postgres@", role+"@", 1))
	_, err = weak.Append(ctx, "orders", rheo.Event{})
	mentions(t, "no rights", err, rheo.ErrFailed, "rheo_partitions", "denied")
	_, err = weak.Read(ctx, "orders", 0, 0, 1)
	mentions(t, "no rights", err, rheo.ErrFailed, "rheo_events", "denied")
	events, err := bare.Read(ctx, "orders", 0, 0, 1)
	if err != nil || len(events) != 0 {
		t.Errorf("half done: %v, %v", events, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	pool := newPool(t, "postgres://nobody@127.0.0.1:1/none", nil)
	for _, prefix := range []string{".x", strings.Repeat("x", 41), "nul\x00"} {
		if _, err := postgres.New(pool, &postgres.Options{Prefix: prefix}); !errors.Is(err, rheo.ErrInvalid) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	if _, err := postgres.New(nil, nil); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("no pool: %v", err)
	}
}

// What is hostile in names, paths and values is plain data.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	ctx := t.Context()
	name := `'; DROP TABLE rheo_events; -- "quoted" $1 {events} %s 😀`
	if err := s.CreateStream(ctx, name, rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateGroup(ctx, name, name, rheo.GroupConfig{}); err != nil {
		t.Fatal(err)
	}
	event := rheo.Event{ID: name, Key: name, Type: name, Metadata: map[string]string{name: name}, Payload: []byte(`{"a') OR TRUE --": {"%s": "'"}}`)}
	if _, err := s.Append(ctx, name, event, rheo.Event{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []rheo.Condition{
		rheo.Where("id", rheo.OpEq, name), rheo.Where("key", rheo.OpEq, name), rheo.Where("metadata."+name, rheo.OpEq, name),
		rheo.Where(`payload.a') OR TRUE --.%s`, rheo.OpEq, "'"), rheo.Where(`payload.a') OR TRUE --.%s`, rheo.OpLt, "'x"),
	} {
		found, err := s.Query(ctx, name, rheo.Query{Where: []rheo.Condition{c}})
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %d found, %v; want 1", c.Path, len(found), err)
		}
	}
	found, err := s.Query(ctx, name, rheo.Query{Where: []rheo.Condition{rheo.Where("x') OR ('1' = '1", rheo.OpEq, "y' OR '1'='1")}})
	if err != nil || len(found) != 0 {
		t.Errorf("injection: %d found, %v", len(found), err)
	}
	leases, err := s.Fetch(ctx, name, name, rheo.FetchOptions{Max: 2})
	if err != nil || len(leases) != 2 {
		t.Fatalf("fetched %d, %v", len(leases), err)
	}
	if err := s.Reject(ctx, name, leases...); err != nil {
		t.Error(err)
	}
}
