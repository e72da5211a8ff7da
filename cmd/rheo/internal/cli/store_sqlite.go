package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite", without cgo

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"
)

// sqliteConnections are plenty: there is one writer, and each reader is short.
const sqliteConnections = 8

// sqliteStore is a backend with the database that it is on.
type sqliteStore struct {
	*sqlite.Backend
	db *sql.DB
}

func (s sqliteStore) Close() error { return errors.Join(s.Backend.Close(), s.db.Close()) }

func openSQLite(ctx context.Context, r request) (_ rheo.Backend, err error) {
	file, options, err := sqliteLocation(r)
	if err != nil {
		return nil, err
	}
	if err := r.mustExist(file); err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; sqlite: names the file of a database", file)
	}
	isNew := err != nil || info.Size() == 0
	db, err := sql.Open("sqlite", sqliteSource(file, r.purpose != using))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(sqliteConnections)
	db.SetMaxIdleConns(sqliteConnections)
	if isNew && r.purpose != using {
		// The mode stays with the file. One that was there keeps its own, which is
		// its owner's choice; and if this fails, everything works in any mode.
		_, _ = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	}
	backend, err := sqlite.New(db, options)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return sqliteStore{backend, db}, nil
}

// sqliteSource is the name of the database for the driver, with whatever a URI
// gives a meaning escaped.
func sqliteSource(file string, create bool) string {
	mode := "rw"
	if create {
		mode = "rwc"
	}
	settings := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(5000)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + settings.Encode()
}

const prefixParameter = "rheo_prefix"

// sqliteLocation takes "FILE" or "FILE?rheo_prefix=NAME_" apart.
func sqliteLocation(r request) (file string, options *sqlite.Options, err error) {
	file, escaped, _ := strings.Cut(r.location, "?"+prefixParameter+"=")
	prefix, err := url.QueryUnescape(escaped)
	switch {
	case err != nil:
		return "", nil, usagef("%s: %v", prefixParameter, err)
	case file == "":
		return "", nil, usagef("--store sqlite: needs a file, as in sqlite:./rheo.db")
	case file == ":memory:":
		return "", nil, usagef("a database in memory would end with the command; for that there is --store memory:")
	}
	return file, &sqlite.Options{Prefix: cmp.Or(prefix, sqlite.DefaultPrefix)}, nil
}

func sqliteSchema(r request) (string, error) {
	_, options, err := sqliteLocation(r)
	if err != nil {
		return "", err
	}
	steps, err := sqlite.Migrations(options)
	if err != nil {
		return "", err
	}
	var text schemaText
	for _, step := range steps {
		text.add(step.Name, step.SQL)
	}
	return text.String(), nil
}

// schemaText is a schema as it is printed.
type schemaText struct{ strings.Builder }

func (t *schemaText) add(name, statements string) {
	if t.Len() > 0 {
		t.WriteString("\n\n")
	}
	t.WriteString("-- " + name + "\n" + strings.TrimSpace(statements))
}
