package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgxInsert is a bare table in PostgreSQL, with pgx: each event is one INSERT and
// commit of its own, over as many connections as there are callers, and a consumer
// deletes what it takes. It is what single appends from many callers are measured
// against.
type PgxInsert struct{ Server Server }

// Name implements Subject.
func (PgxInsert) Name() string { return "pgx-insert" }

// Confirms implements Subject.
func (PgxInsert) Confirms() string { return "fsync per event" }

const (
	insertTable = `
CREATE TABLE log (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts       timestamptz NOT NULL,
    id       text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    metadata jsonb,
    payload  jsonb NOT NULL
)`
	insertOne = `INSERT INTO log (ts, id, key, type, payload) VALUES ($1, $2, $3, $4, $5)`
	takeSome  = `
DELETE FROM log WHERE sequence = ANY (ARRAY(
    SELECT sequence FROM log ORDER BY sequence LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING payload`
)

// Open implements Subject.
func (s PgxInsert) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openDatabase(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, insertTable); err != nil {
		return nil, closing(err, db)
	}
	return &pgxInsertSession{db}, nil
}

type pgxInsertSession struct{ *database }

// Append implements Session.
func (s *pgxInsertSession) Append(ctx context.Context, batch []Event) error {
	for i := range batch {
		e := &batch[i]
		if _, err := s.pool.Exec(ctx, insertOne, e.Time, e.ID, e.Key, e.Type, string(e.Payload)); err != nil {
			return err
		}
	}
	return nil
}

// Subscribe implements Session; the one consumer there can be takes all.
func (*pgxInsertSession) Subscribe(context.Context) error { return nil }

// Consume implements Session.
func (s *pgxInsertSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	poll := time.NewTicker(logPoll)
	defer poll.Stop()
	for {
		n, err := s.take(ctx, limit, handle)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s *pgxInsertSession) take(ctx context.Context, limit int, handle func([]byte)) (n int, err error) {
	rows, err := s.pool.Query(ctx, takeSome, limit)
	if err != nil {
		return 0, err
	}
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&payload}, func() error {
		handle(payload)
		n++
		return nil
	})
	return n, err
}

// Flush implements Session: every Consume has committed already.
func (*pgxInsertSession) Flush(context.Context) error { return nil }
