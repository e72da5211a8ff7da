package sqlitetest_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"

	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"
)

// A setting is a way in which a host may open its database.
type setting struct {
	name    string
	driver  string
	journal string
	sync    string
}

// dsn names the file with everything that a URI gives a meaning escaped.
func (s setting) dsn(file string) string {
	pragmas := url.Values{}
	switch s.driver {
	case "sqlite3":
		pragmas.Set("_journal_mode", s.journal)
		pragmas.Set("_synchronous", s.sync)
		pragmas.Set("_txlock", "immediate")
	case "sqlite":
		pragmas.Add("_pragma", "journal_mode("+s.journal+")")
		pragmas.Add("_pragma", "synchronous("+s.sync+")")
		pragmas.Set("_txlock", "immediate")
	}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + pragmas.Encode()
}

var (
	mattnWAL    = setting{"mattn-wal", "sqlite3", "WAL", "NORMAL"}
	mattnDelete = setting{"mattn-delete", "sqlite3", "DELETE", "OFF"}
	moderncWAL  = setting{"modernc-wal", "sqlite", "WAL", "NORMAL"}
	moderncDel  = setting{"modernc-delete", "sqlite", "DELETE", "OFF"}
)

// settings are all of them; under the race detector only those whose driver is
// usable there.
func settings() []setting {
	if raceEnabled {
		return []setting{mattnWAL, mattnDelete}
	}
	return []setting{mattnWAL, mattnDelete, moderncWAL, moderncDel}
}

// settingNamed is for the other process, which is told the name.
func settingNamed(name string) (setting, bool) {
	for _, s := range []setting{mattnWAL, mattnDelete, moderncWAL, moderncDel} {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

func (s setting) open(tb testing.TB, file string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(s.driver, s.dsn(file))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// file returns the path of a database that is not there yet.
func file(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "rheo.db")
}

func newBackend(tb testing.TB, db *sql.DB, opts *sqlite.Options) *sqlite.Backend {
	tb.Helper()
	b, err := sqlite.New(db, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// instance opens a store with a schema.
func instance(tb testing.TB, db *sql.DB) *rheo.Instance {
	tb.Helper()
	in, err := rheo.New(newBackend(tb, db, nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := in.EnsureSchema(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return in
}
