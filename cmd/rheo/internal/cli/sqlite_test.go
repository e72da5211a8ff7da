package cli

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sqliteFile is the database of the shell's store, opened as a host would.
func (s *shellOf) sqliteFile() (file string, db *sql.DB) {
	s.t.Helper()
	file = strings.TrimPrefix(s.store, "sqlite:")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { db.Close() })
	return file, db
}

func (s *shellOf) sql(db *sql.DB, query string) (found string) {
	s.t.Helper()
	if err := db.QueryRowContext(s.t.Context(), query).Scan(&found); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return found
}

// refused runs a command that must fail and print nothing.
func (s *shellOf) refused(code int, want string, args ...string) {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code || r.stdout != "" {
		s.t.Errorf("%.100q: exit %d, want %d; stdout %q", args, r.code, code, r.stdout)
	}
	contains(s.t, r.stderr, want, "rheo: ")
	if strings.Contains(r.stderr, "s3cret") || strings.Contains(r.stderr, "rheo: rheo:") {
		s.t.Errorf("%q: %s", args, r.stderr)
	}
}

func TestSQLiteBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for store, want := range map[string]string{
		"sqlite:" + filepath.Join(dir, "none.db"): "there is no store in",
		"sqlite:" + dir: "is a directory",
		"sqlite:" + writeFile(t, "notes.txt", "This is no database."): "not a database",
		"sqlite:" + writeFile(t, "empty.db", ""):                      "rheo migrate",
	} {
		s := &shellOf{t: t, store: store}
		s.refused(exitFailed, want, "stream", "list")
	}
	for store, want := range map[string]string{
		"sqlite:":                         "needs a file",
		"sqlite::memory:":                 "--store memory:",
		"sqlite:x.db?rheo_prefix=%zz":     "rheo_prefix",
		"sqlite:x.db?rheo_prefix=sqlite_": "must not begin with sqlite_",
	} {
		s := &shellOf{t: t, store: store}
		if r := s.run("migrate", "--print"); r.code == exitDone {
			t.Errorf("%s: %+v", store, r)
		} else {
			contains(t, r.stderr, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("made %v, %v", left, err)
	}
}

// TestSQLiteOfAHost: what the owner of a file has in it, and how it is set, stays.
func TestSQLiteOfAHost(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	file, db := s.sqliteFile()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id); INSERT INTO orders VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	s.refused(exitFailed, "migrate\nmakes or updates the schema", "stream", "list")
	s.store = "sqlite:" + file + "?rheo_prefix=events%5F"
	s.ok("stream", "create", "n")
	s.ok("stream", "info", "n")
	if got := s.sql(db, "SELECT count(*) FROM orders, events_streams") + s.sql(db, "PRAGMA journal_mode"); got != "1delete" {
		t.Errorf("got %s", got)
	}
	s.store = "sqlite:" + file
	s.refused(exitFailed, "no tables with the prefix", "stream", "list")

	fresh := newSQLite(t)
	fresh.ok("stream", "create", "n")
	if _, db := fresh.sqliteFile(); fresh.sql(db, "PRAGMA journal_mode") != "wal" {
		t.Error("a new file is not in WAL mode")
	}
}

func TestSQLiteFromTheFuture(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	s.ok("migrate")
	_, db := s.sqliteFile()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO rheo_schema (version) VALUES (1000)"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"stream", "list"}, {"stream", "create", "n"}, {"migrate"}, {"demo"}} {
		s.refused(exitFailed, "1000", args...)
	}
	if got := s.sql(db, "SELECT count(*) FROM rheo_streams"); got != "0" {
		t.Errorf("%s streams", got)
	}
}

func TestSQLitePrintedSchema(t *testing.T) {
	t.Parallel()
	s := newSQLite(t)
	printed := s.ok("migrate", "--print")
	file, db := s.sqliteFile()
	if _, err := os.Stat(file); err == nil {
		t.Error("migrate --print has made the file")
	}
	if _, err := db.ExecContext(t.Context(), printed); err != nil {
		t.Fatal(err)
	}
	s.ok("migrate")
	s.one(t)
	var document map[string]string
	s.json(&document, "migrate", "--print")
	if document["schema"] != strings.TrimSuffix(printed, "\n") {
		t.Errorf("--json prints otherwise: %.100s", document["schema"])
	}
	s.refused(exitUsage, "sqlite: stores have no index on payload", "migrate", "--index", "payload")
}
