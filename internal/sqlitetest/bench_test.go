package sqlitetest_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
)

// Benchmarks sync every commit, as a host does that must lose nothing.
var benchmarked = []setting{
	{"mattn", "sqlite3", "WAL", "FULL"},
	{"modernc", "sqlite", "WAL", "FULL"},
}

func BenchmarkSQLite(b *testing.B) {
	for _, s := range benchmarked {
		b.Run(s.name, func(b *testing.B) {
			b.Run("bare", func(b *testing.B) { benchmarkBare(b, s) })
			backendtest.Benchmark(b, func(b *testing.B) rheo.Backend {
				b.Helper()
				return newBackend(b, s.open(b, file(b)), nil)
			})
		})
	}
}

// bare is a log with the least that a log needs, by hand: the same values in a
// table with a key and nothing else, read by a cursor that is stored once a batch.
type bare struct {
	conn                  *sql.Conn
	insert, read, advance *sql.Stmt
	next, cursor          int64
	payload               string
}

const bareBatch = 100

func newBare(b *testing.B, s setting) *bare {
	b.Helper()
	conn, err := s.open(b, file(b)).Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	for _, text := range []string{
		"CREATE TABLE events (sequence INTEGER PRIMARY KEY, id TEXT, timestamp INTEGER, key TEXT, type TEXT, metadata TEXT, payload TEXT)",
		"CREATE TABLE cursors (name TEXT PRIMARY KEY, sequence INTEGER)",
		"INSERT INTO cursors VALUES ('g', 0)",
	} {
		if _, err := conn.ExecContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	prepare := func(text string) *sql.Stmt {
		stmt, err := conn.PrepareContext(b.Context(), text)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = stmt.Close() })
		return stmt
	}
	return &bare{
		conn:    conn,
		insert:  prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"),
		read:    prepare("SELECT sequence, id, timestamp, key, type, metadata, payload FROM events WHERE sequence > ? ORDER BY sequence LIMIT 100"),
		advance: prepare("UPDATE cursors SET sequence = ? WHERE name = 'g'"),
		payload: newPayload(),
	}
}

// newPayload is 200 bytes of JSON, as in the suite's benchmarks.
func newPayload() string { return `{"text":"` + strings.Repeat("x", 189) + `"}` }

func (r *bare) in(ctx context.Context, f func() error) error {
	if _, err := r.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	_, err := r.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (r *bare) append(ctx context.Context) error {
	return r.in(ctx, func() error {
		for range bareBatch {
			r.next++
			id := fmt.Sprintf("019e0000-0000-7000-8000-%012d", r.next)
			_, err := r.insert.ExecContext(ctx, r.next, id, time.Now().UnixMicro(), "", "bench", nil, r.payload)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *bare) consume(ctx context.Context) error {
	rows, err := r.read.QueryContext(ctx, r.cursor)
	if err != nil {
		return err
	}
	defer rows.Close()
	var timestamp int64
	var id, key, kind string
	var metadata sql.NullString
	var payload []byte
	for rows.Next() {
		if err := rows.Scan(&r.cursor, &id, &timestamp, &key, &kind, &metadata, &payload); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return r.in(ctx, func() error {
		_, err := r.advance.ExecContext(ctx, r.cursor)
		return err
	})
}

func benchmarkBare(b *testing.B, s setting) {
	b.Helper()
	b.Run("append/batch=100", func(b *testing.B) {
		r := newBare(b, s)
		b.ResetTimer()
		for i := 0; i < b.N; i += bareBatch {
			if err := r.append(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("cycle/batch=100", func(b *testing.B) {
		r := newBare(b, s)
		b.ResetTimer()
		for i := 0; i < b.N; i += bareBatch {
			if err := r.append(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := r.consume(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}
