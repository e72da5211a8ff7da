package sqlite

import (
	"context"
	"fmt"

	"github.com/rheo-go/rheo"
)

// EnsureSchema implements [rheo.Backend]. It applies the migrations that the
// database lacks, each in the one transaction; where none is lacking it writes
// nothing.
func (b *Backend) EnsureSchema(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	list, err := migrations(b.names)
	if err != nil {
		return rheo.WrapError(rheo.ErrFailed, err, "reading the embedded migrations")
	}
	version, err := b.schemaVersion(ctx, b.pool)
	if err != nil {
		return err
	}
	if version < len(list) {
		return b.writer.do(ctx, func(ctx context.Context, tx *transaction) error { return b.migrate(ctx, tx, list) })
	}
	return b.checkVersion(version)
}

// migrate looks at the version again: another process may have been faster.
func (b *Backend) migrate(ctx context.Context, tx *transaction, list []Migration) error {
	version, err := b.schemaVersion(ctx, tx.session)
	if err != nil {
		return err
	}
	for _, m := range list[min(version, len(list)):] {
		for _, statement := range m.statements() {
			tx.changes++
			if _, err := tx.q.ExecContext(ctx, statement); err != nil {
				return &driverError{fmt.Errorf("migration %s: %w", m.Name, err)}
			}
		}
	}
	if version > len(list) {
		return b.checkVersion(version)
	}
	return nil
}

// schemaVersion returns 0 if there is no schema.
func (b *Backend) schemaVersion(ctx context.Context, s *session) (version int, err error) {
	there := 0
	if _, err := s.one(ctx, "schema-there", []any{&there}, b.names.of("schema")); err != nil || there == 0 {
		return 0, failure(reading, err)
	}
	_, err = s.one(ctx, "schema-version", []any{&version})
	return version, failure(reading, err)
}

func (b *Backend) checkVersion(version int) error {
	list, err := migrations(b.names)
	switch {
	case err != nil:
		return rheo.WrapError(rheo.ErrFailed, err, "reading the embedded migrations")
	case version == 0:
		return rheo.Errorf(rheo.ErrFailed, "the database has no tables with the prefix %q: run EnsureSchema (rheo migrate) first", b.names.prefix)
	case version < len(list):
		return rheo.Errorf(rheo.ErrFailed, "the database's schema is version %d, this library needs %d: run EnsureSchema (rheo migrate) first", version, len(list))
	case version > len(list):
		return rheo.Errorf(rheo.ErrFailed, "the database's schema is version %d, and this library knows no later than %d: upgrade the library", version, len(list))
	}
	return nil
}
