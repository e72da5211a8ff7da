package bench

import (
	"context"
	"database/sql"
	"time"

	"maragu.dev/goqite"
)

// Goqite is a queue in SQLite, used as its documentation shows it, on one
// connection: a batch is sent in one transaction, a message is received and
// deleted by itself.
type Goqite struct{ Driver Driver }

// Name implements Subject.
func (s Goqite) Name() string { return "goqite-" + string(s.Driver) }

// Confirms implements Subject.
func (Goqite) Confirms() string { return perBatch }

const (
	goqitePoll    = 5 * time.Millisecond
	goqiteTimeout = 5 * time.Minute // after which a message received and not deleted comes again
	// goqiteSchema is schema_sqlite.sql of goqite v0.4.0 (MIT licence), which the
	// package leaves to its user to apply.
	goqiteSchema = `
create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;

create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;

create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);`
)

// Open implements Subject.
func (s Goqite) Open(ctx context.Context, dir string) (Session, error) {
	db, err := s.Driver.open(dir)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, goqiteSchema); err != nil {
		return nil, closing(err, db)
	}
	return &goqiteSession{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "bench", Timeout: goqiteTimeout})}, nil
}

type goqiteSession struct {
	db    *sql.DB
	queue *goqite.Queue
}

// Append implements Session.
func (s *goqiteSession) Append(ctx context.Context, batch []Event) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to roll back
	for i := range batch {
		record := batch[i].AppendRecord(make([]byte, 0, PayloadSize+80))
		if err := s.queue.SendTx(ctx, tx, goqite.Message{Body: record}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Subscribe implements Session; there is nothing to prepare.
func (*goqiteSession) Subscribe(context.Context) error { return nil }

// Consume implements Session.
func (s *goqiteSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
	m, err := s.queue.ReceiveAndWait(ctx, goqitePoll)
	if err != nil {
		return 0, err
	}
	payload, err := recordPayload(m.Body)
	if err != nil {
		return 0, err
	}
	handle(payload)
	if err := s.queue.Delete(ctx, m.ID); err != nil {
		return 0, err
	}
	return 1, nil
}

// Flush implements Session: every Consume has committed already.
func (*goqiteSession) Flush(context.Context) error { return nil }

// Close implements Session.
func (s *goqiteSession) Close() error { return s.db.Close() }
