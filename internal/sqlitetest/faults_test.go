package sqlitetest_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"
)

func newInstance(t *testing.T, db *sql.DB, opts *sqlite.Options) *rheo.Instance {
	t.Helper()
	in, err := rheo.New(newBackend(t, db, opts), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// wants checks an error's class, and that its message says how to go on.
func wants(t *testing.T, what string, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want %v that says %q", what, err, kind, says)
	}
}

func TestNoSchema(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		in := newInstance(t, s.open(t, file(t)), nil)
		wants(t, s.name, in.CreateStream(t.Context(), "s", rheo.StreamConfig{}), rheo.ErrFailed, "EnsureSchema")
		_, err := in.Streams(t.Context())
		wants(t, s.name, err, rheo.ErrFailed, "EnsureSchema")
		if err := in.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestFutureSchema(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		path := file(t)
		db := s.open(t, path)
		instance(t, db)
		if _, err := db.ExecContext(t.Context(), "INSERT INTO rheo_schema (version) VALUES (99)"); err != nil {
			t.Fatal(err)
		}
		in := newInstance(t, db, nil)
		wants(t, s.name, in.EnsureSchema(t.Context()), rheo.ErrFailed, "upgrade the library")
		_, err := in.Streams(t.Context())
		wants(t, s.name, err, rheo.ErrFailed, "upgrade the library")
	}
}

func TestEnsureSchemaTogether(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		path := file(t)
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			in := newInstance(t, s.open(t, path), nil)
			all.Go(func() { errs[i] = in.EnsureSchema(t.Context()) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

func TestPrintedMigrations(t *testing.T) {
	t.Parallel()
	opts := &sqlite.Options{Prefix: `it's "mine"; DROP TABLE x; -- 🦀`}
	list, err := sqlite.Migrations(opts)
	if err != nil {
		t.Fatal(err)
	}
	db := mattnWAL.open(t, file(t))
	for _, m := range list {
		if _, err := db.ExecContext(t.Context(), m.SQL); err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
	}
	in := newInstance(t, db, opts)
	if err := in.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
		t.Error(err)
	}
	if _, err := in.Append(t.Context(), "s", event("1")); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	db := mattnWAL.open(t, file(t))
	for _, prefix := range []string{strings.Repeat("p", 101), "sqlite_x", "a\x00b", "\xff"} {
		_, err := sqlite.New(db, &sqlite.Options{Prefix: prefix})
		wants(t, prefix, err, rheo.ErrInvalid, "Prefix")
	}
	_, err := sqlite.New(nil, nil)
	wants(t, "no database", err, rheo.ErrInvalid, "db")
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		path := filepath.Join(t.TempDir(), `it's "a" db; %20?#&_pragma=x 🦀.db`)
		in := instance(t, s.open(t, path))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		const name = `'; DROP TABLE rheo_events; -- "🦀" \ ? % _`
		ctx := t.Context()
		if err := in.CreateStream(ctx, name, rheo.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
		if err := in.CreateGroup(ctx, name, name, rheo.GroupConfig{}); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Append(ctx, name, rheo.Event{ID: name, Key: name, Type: name, Metadata: map[string]string{name: name}}); err != nil {
			t.Fatal(err)
		}
		found, err := in.Query(ctx, name, rheo.Query{Where: []rheo.Condition{
			rheo.Where("id", rheo.OpEq, name), rheo.Where("type", rheo.OpIn, []string{name}), rheo.Where("metadata."+name, rheo.OpEq, name),
		}})
		if err != nil || len(found) != 1 {
			t.Errorf("%s: found %d and %v", s.name, len(found), err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		path := file(t)
		in := instance(t, s.open(t, path))
		if err := in.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open(s.driver, "file:"+path+"?mode=ro")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		readOnly := newInstance(t, db, nil)
		if err := readOnly.EnsureSchema(t.Context()); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if _, err := readOnly.StreamInfo(t.Context(), "s"); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		_, err = readOnly.Append(t.Context(), "s", event("1"))
		wants(t, s.name, err, rheo.ErrFailed, "read-only")
	}
}

func TestNoDirectory(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		in := newInstance(t, s.open(t, filepath.Join(t.TempDir(), "not", "there", "x.db")), nil)
		wants(t, s.name, in.EnsureSchema(t.Context()), rheo.ErrUnavailable, "directory")
		wants(t, s.name, in.Ping(t.Context()), rheo.ErrUnavailable, "directory")
	}
}

func TestNotADatabase(t *testing.T) {
	t.Parallel()
	for _, s := range []setting{{"mattn", "sqlite3", "", ""}, {"modernc", "sqlite", "", ""}} {
		path := file(t)
		if err := os.WriteFile(path, []byte(strings.Repeat("this is no database. ", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open(s.driver, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		in := newInstance(t, db, nil)
		wants(t, s.name, in.EnsureSchema(t.Context()), rheo.ErrFailed, "not a SQLite database")
	}
}

// TestFullDisk limits the pages, which SQLite reports as it does a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		path := file(t)
		db := s.open(t, path)
		db.SetMaxOpenConns(1) // the limit is the connection's
		in := instance(t, db)
		ctx := t.Context()
		if err := in.CreateStream(ctx, "s", rheo.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, "PRAGMA max_page_count = 40"); err != nil {
			t.Fatal(err)
		}
		large := rheo.Event{Payload: []byte(`"` + strings.Repeat("x", 20_000) + `"`)}
		written := int64(0)
		var err error
		for range 20 {
			if _, err = in.Append(ctx, "s", large, large); err != nil {
				break
			}
			written += 2
		}
		wants(t, s.name, err, rheo.ErrFailed, "full")
		info, err := in.StreamInfo(ctx, "s")
		if err != nil || info.Events() != written {
			t.Errorf("%s: %d events and %v, want %d", s.name, info.Events(), err, written)
		}
		if _, err := db.ExecContext(ctx, "PRAGMA max_page_count = 100000"); err != nil {
			t.Fatal(err)
		}
		results, err := in.Append(ctx, "s", large)
		if err != nil || results[0].Sequence != written+1 {
			t.Errorf("%s: with room again: %v", s.name, err)
		}
	}
}

// TestLocked holds the lock from outside for longer than the caller's patience.
func TestLocked(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			db := s.open(t, file(t))
			in := instance(t, db)
			if err := in.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), nil) // as a writer: _txlock says so
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err = in.Append(ctx, "s", event("1"))
			wants(t, "while locked", err, rheo.ErrUnavailable, "other writers")
			if took := time.Since(start); took > time.Second {
				t.Errorf("it took %v to give up", took)
			}
			done := make(chan error, 1)
			go func() {
				_, err := in.Append(t.Context(), "s", event("2"))
				done <- err
			}()
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			info, err := in.StreamInfo(t.Context(), "s")
			if err != nil || info.Events() != 1 {
				t.Errorf("%d events and %v, want 1: what was given up must not be written", info.Events(), err)
			}
		})
	}
}

// TestSettingsOfTheHost shows that the host's connections are as it has set them.
func TestSettingsOfTheHost(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		db := s.open(t, file(t))
		db.SetMaxOpenConns(1)
		pragma := func(name string) (value string) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			return value
		}
		if _, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout = 1234"); err != nil {
			t.Fatal(err)
		}
		before := []string{pragma("synchronous"), pragma("busy_timeout"), pragma("journal_mode"), pragma("foreign_keys")}
		in := instance(t, db)
		if err := in.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Append(t.Context(), "s", event("1")); err != nil {
			t.Fatal(err)
		}
		after := []string{pragma("synchronous"), pragma("busy_timeout"), pragma("journal_mode"), pragma("foreign_keys")}
		if strings.Join(before, " ") != strings.Join(after, " ") {
			t.Errorf("%s: the settings were %v and are %v", s.name, before, after)
		}
	}
}
