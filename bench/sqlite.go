package bench

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	"github.com/rheo-go/rheo/sqlite"

	_ "github.com/mattn/go-sqlite3" // the driver sqlite3
	_ "modernc.org/sqlite"          // the driver sqlite
)

// Driver is a way to SQLite.
type Driver string

// The drivers that are measured.
const (
	Mattn   Driver = "mattn"
	Modernc Driver = "modernc"
)

// open opens the file with WAL, every commit synced, and transactions that write
// from their start.
func (d Driver) open(dir string) (*sql.DB, error) {
	file := "file:" + (&url.URL{Path: filepath.Join(dir, "bench.db")}).EscapedPath() + "?"
	pragmas := url.Values{"_txlock": {"immediate"}}
	if d == Mattn {
		pragmas.Set("_journal_mode", "WAL")
		pragmas.Set("_synchronous", "FULL")
		pragmas.Set("_busy_timeout", "10000")
		return sql.Open("sqlite3", file+pragmas.Encode())
	}
	pragmas["_pragma"] = []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}
	return sql.Open("sqlite", file+pragmas.Encode())
}

// SQLite is rheo/sqlite.
type SQLite struct{ Driver Driver }

// Name implements Subject.
func (s SQLite) Name() string { return "rheo/sqlite-" + string(s.Driver) }

// Confirms implements Subject.
func (SQLite) Confirms() string { return perCommit }

// Open implements Subject.
func (s SQLite) Open(ctx context.Context, dir string) (Session, error) {
	db, err := s.Driver.open(dir)
	if err != nil {
		return nil, err
	}
	backend, err := sqlite.New(db, nil)
	if err != nil {
		return nil, closing(err, db)
	}
	session, err := openRheo(ctx, backend, 1)
	if err != nil {
		return nil, closing(err, db)
	}
	return &sqliteSession{rheoSession: session, db: db}, nil
}

type sqliteSession struct {
	*rheoSession
	db *sql.DB
}

// Close implements Session.
func (s *sqliteSession) Close() error {
	return errors.Join(s.rheoSession.Close(), s.db.Close())
}
