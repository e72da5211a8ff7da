package bench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rheo-go/rheo/postgres"
)

// Postgres is rheo/postgres on a pool of its own, with LISTEN and NOTIFY.
type Postgres struct {
	Server     Server
	Partitions int
	// ByKey has each event go to its key's partition, so that a batch goes to all
	// of them. Otherwise the partitions take turns, batch by batch, as in PgxLog.
	ByKey bool
}

// Name implements Subject.
func (s Postgres) Name() string {
	if s.ByKey {
		return fmt.Sprintf("rheo/postgres-%d-by-key", s.Partitions)
	}
	return fmt.Sprintf("rheo/postgres-%d", s.Partitions)
}

const (
	perCommit = "fsync per commit"
	perBatch  = "fsync per batch"
)

// Confirms implements Subject.
func (Postgres) Confirms() string { return perCommit }

// Open implements Subject.
func (s Postgres) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openDatabase(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	backend, err := postgres.New(db.pool, nil)
	if err != nil {
		return nil, closing(err, db)
	}
	session, err := openRheo(ctx, backend, s.Partitions)
	if err != nil {
		return nil, closing(err, db)
	}
	if !s.ByKey {
		session.pinned.of = s.Partitions
	}
	return &postgresSession{rheoSession: session, database: db}, nil
}

type postgresSession struct {
	*rheoSession
	*database
}

// Close implements Session.
func (s *postgresSession) Close() error {
	return errors.Join(s.rheoSession.Close(), s.database.Close())
}

// closing is err, and what closing the rest adds to it.
func closing(err error, rest ...io.Closer) error {
	for _, c := range rest {
		err = errors.Join(err, c.Close())
	}
	return err
}
