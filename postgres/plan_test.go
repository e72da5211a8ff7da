package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// The opt-in index serves equality on the payload and metadata: by its plan, at
// 100,000 events.
func TestPayloadIndexIsUsed(t *testing.T) {
	t.Parallel()
	seen := new(recorder)
	s := openStore(t, testservers.Postgres(t).Database(t), postgres.Options{PayloadIndex: true, WithoutNotify: true}, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = seen
	})
	ctx := t.Context()
	s.create(t, "orders", 2)
	_, err := s.pool.Exec(ctx, `
		INSERT INTO rheo_events (stream_id, partition, sequence, id, key, type, ts, metadata, payload)
		SELECT s.id, n % 2, n / 2 + 1, 'e' || n, '', '', now(), jsonb_build_object('trace', 't' || n),
		       jsonb_build_object('customer', jsonb_build_object('id', n % 20000), 'total', n)
		FROM rheo_streams s, generate_series(0, 99999) n`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(ctx, "UPDATE rheo_partitions SET high = 50000"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(ctx, "ANALYZE rheo_events"); err != nil {
		t.Fatal(err)
	}
	conditions := []struct {
		where rheo.Condition
		found int
		index string
	}{
		{rheo.Where("customer.id", rheo.OpEq, 1234), 5, "rheo_events_payload"},
		{rheo.Where("customer.id", rheo.OpIn, []int{1234, 1235}), 10, "rheo_events_payload"},
		{rheo.Where("metadata.trace", rheo.OpEq, "t777"), 1, "rheo_events_payload"},
		{rheo.Where("id", rheo.OpEq, "e4711"), 1, "rheo_events_id"},
	}
	for _, c := range conditions {
		found, err := s.Query(ctx, "orders", rheo.Query{Where: []rheo.Condition{c.where}})
		if err != nil || len(found) != c.found {
			t.Fatalf("%s: %d found, %v; want %d", c.where.Path, len(found), err, c.found)
		}
		rows, err := s.pool.Query(ctx, "EXPLAIN "+seen.sql, seen.arguments...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s is not served by %s:\n%s", fmt.Sprint(c.where), c.index, plan)
		}
	}
}

// recorder keeps the last query of the events.
type recorder struct {
	sql       string
	arguments []any
}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	if strings.Contains(d.SQL, `FROM "rheo_events" e WHERE`) {
		r.sql, r.arguments = d.SQL, d.Args
	}
}

func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
