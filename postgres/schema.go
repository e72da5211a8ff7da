package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var schemaVersion = load("schema_version")

// Migration is one step of the schema. Its SQL also records that it was applied.
type Migration struct {
	Version int // 0 for the index that Options.PayloadIndex asks for
	Name    string
	SQL     string
}

// payloadIndex has no number: it is there if it is asked for. Who wants it on a
// large table without holding up appends makes it by hand, CONCURRENTLY and under
// this name.
const payloadIndex statement = `CREATE INDEX IF NOT EXISTS {=events_payload} ON {events} USING gin (payload jsonb_path_ops, metadata jsonb_path_ops)`

// Migrations returns the steps from an empty database to the schema that this
// version of the library uses, for a host that applies them with a tool of its
// own; [Backend.EnsureSchema] applies the same. Only Prefix and PayloadIndex of the
// options count.
func Migrations(opts *Options) ([]Migration, error) {
	o, n, err := opts.complete()
	if err != nil {
		return nil, err
	}
	return migrations(n, o.PayloadIndex), nil
}

func migrations(n names, index bool) []Migration {
	entries, err := fs.ReadDir(files, "sql/migrations")
	if err != nil {
		panic(err) // it is embedded
	}
	var steps []Migration
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".sql")
		number, title, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			panic(err) // so are the names
		}
		sql := n.fill(load("migrations/"+name)) + "\n\n" +
			n.fill(statement(fmt.Sprintf("INSERT INTO {migrations} (version) VALUES (%d);\n", version)))
		if len(steps) == 0 {
			sql = n.foundation() + "\n" + sql
		}
		steps = append(steps, Migration{Version: version, Name: title, SQL: sql})
	}
	if index {
		steps = append(steps, Migration{Name: "payload_index", SQL: n.fill(payloadIndex) + ";\n"})
	}
	return steps
}

// foundation makes what the migrations need.
func (n names) foundation() string {
	sql := ""
	if n.schema != "" {
		// IF NOT EXISTS would ask for the right to create one, even where it exists.
		schema := pgx.Identifier{n.schema}.Sanitize()
		sql = fmt.Sprintf("DO $do$ BEGIN\n    IF to_regnamespace('%s') IS NULL THEN CREATE SCHEMA %s; END IF;\nEND $do$;\n\n",
			strings.ReplaceAll(schema, "'", "''"), schema)
	}
	return sql + n.fill("CREATE TABLE IF NOT EXISTS {migrations} (\n"+
		"    version    integer PRIMARY KEY,\n    applied_at timestamptz NOT NULL DEFAULT now()\n);\n")
}

// EnsureSchema implements [rheo.Backend]: it brings the schema up to this
// version, all of it or nothing, while whoever else tries waits.
func (b *Backend) EnsureSchema(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	steps := migrations(b.names, b.options.PayloadIndex)
	current, err := b.currentSchema(ctx, b.pool)
	if err != nil {
		return err
	}
	latest := latestOf(steps)
	if err := b.checkSchema(current, latest); err != nil {
		return err
	}
	if current == latest {
		if done, err := b.indexed(ctx, b.pool); done || err != nil {
			return err
		}
	}
	return b.failure(pgx.BeginTxFunc(ctx, b.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return b.migrate(ctx, tx, steps)
	}), writing)
}

func latestOf(steps []Migration) (version int) {
	for _, m := range steps {
		version = max(version, m.Version)
	}
	return version
}

func (b *Backend) migrate(ctx context.Context, tx pgx.Tx, steps []Migration) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", b.names.lockKey()); err != nil {
		return err
	}
	current, err := b.currentSchema(ctx, tx)
	if err != nil {
		return err
	}
	if err := b.checkSchema(current, latestOf(steps)); err != nil {
		return err
	}
	for _, m := range steps {
		if m.Version == 0 {
			// Even IF NOT EXISTS would wait for every append under way.
			if done, err := b.indexed(ctx, tx); done || err != nil {
				return err
			}
		}
		if m.Version > current || m.Version == 0 {
			if err := script(ctx, tx, m.SQL); err != nil {
				return err
			}
		}
	}
	return nil
}

// script runs several statements.
func script(ctx context.Context, tx pgx.Tx, sql string) error {
	return tx.Conn().PgConn().Exec(ctx, sql).Close()
}

// exists looks whether a table or index of ours is there. Reading pg_class beside
// has the server take notice of what others have made since: to_regclass alone
// may remember that there was nothing.
func (b *Backend) exists(ctx context.Context, q queryer, name string) (there bool, err error) {
	err = q.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL FROM pg_catalog.pg_class LIMIT 1", b.names.quoted(name)).Scan(&there)
	return there, b.failure(err, reading)
}

// indexed reports whether there is nothing to do about the index.
func (b *Backend) indexed(ctx context.Context, q queryer) (bool, error) {
	if !b.options.PayloadIndex {
		return true, nil
	}
	return b.exists(ctx, q, "events_payload")
}

// currentSchema looks whether the table is there before it reads it, since an
// error would end the transaction.
func (b *Backend) currentSchema(ctx context.Context, q queryer) (int, error) {
	if there, err := b.exists(ctx, q, "migrations"); err != nil || !there {
		return 0, err
	}
	var version int
	if err := q.QueryRow(ctx, b.text(schemaVersion)).Scan(&version); err != nil {
		return 0, b.failure(err, reading)
	}
	return version, nil
}

func (b *Backend) checkSchema(current, latest int) error {
	if current > latest {
		return rheo.Errorf(rheo.ErrFailed,
			"the schema (prefix %q) is at version %d, newer than this library, which knows %d; update the library", b.options.Prefix, current, latest)
	}
	return nil
}
