package bench

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// SQLiteLog is a bare log in SQLite: the values of Rheo's events in a table by
// sequence; one commit per appended batch; a consumer that reads by cursor, and
// one commit of its position per batch. It writes on one connection and reads on
// another, with prepared statements. No index, no lease, no attempt is kept.
type SQLiteLog struct{ Driver Driver }

// Name implements Subject.
func (s SQLiteLog) Name() string { return "sqlite-log-" + string(s.Driver) }

// Confirms implements Subject.
func (SQLiteLog) Confirms() string { return perBatch }

var sqliteLogTables = []string{
	"CREATE TABLE log (sequence INTEGER PRIMARY KEY, id TEXT, timestamp INTEGER, key TEXT, type TEXT, metadata TEXT, payload TEXT)",
	"CREATE TABLE cursors (name TEXT PRIMARY KEY, sequence INTEGER)",
	"INSERT INTO cursors VALUES ('consumer', 0)",
}

// Open implements Subject.
func (s SQLiteLog) Open(ctx context.Context, dir string) (Session, error) {
	db, err := s.Driver.open(dir)
	if err != nil {
		return nil, err
	}
	session := &sqliteLogSession{db: db, tail: newTail()}
	if err := session.prepare(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

type sqliteLogSession struct {
	db   *sql.DB
	tail *tail

	writing         sync.Mutex // held from BEGIN to COMMIT
	writer          *sql.Conn
	insert, advance *sql.Stmt
	last            uint64 // the last sequence

	reading sync.Mutex // held by the consumer whose turn it is
	reader  *sql.Conn
	read    *sql.Stmt
}

func (s *sqliteLogSession) prepare(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if s.writer, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if s.reader, err = s.db.Conn(ctx); err != nil {
		return err
	}
	for _, text := range sqliteLogTables {
		if _, err := s.writer.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	if s.insert, err = s.writer.PrepareContext(ctx, "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)"); err != nil {
		return err
	}
	if s.advance, err = s.writer.PrepareContext(ctx, "UPDATE cursors SET sequence = ? WHERE name = 'consumer'"); err != nil {
		return err
	}
	s.read, err = s.reader.PrepareContext(ctx, `
SELECT sequence, id, timestamp, key, type, metadata, payload FROM log
WHERE sequence BETWEEN ? AND ? ORDER BY sequence`)
	return err
}

// write runs f in a transaction.
func (s *sqliteLogSession) write(ctx context.Context, f func() error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		_, err = s.writer.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = s.writer.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the first error says more
	}
	return err
}

// Append implements Session.
func (s *sqliteLogSession) Append(ctx context.Context, batch []Event) error {
	var last uint64
	err := s.write(ctx, func() error {
		last = s.last
		for i := range batch {
			last++
			e := &batch[i]
			if _, err := s.insert.ExecContext(ctx, int64(last), e.ID, e.Time.UnixMicro(), e.Key, e.Type, nil, string(e.Payload)); err != nil {
				return err
			}
		}
		s.last = last
		return nil
	})
	if err == nil {
		s.tail.grow(last)
	}
	return err
}

// Subscribe implements Session; the position starts at zero.
func (*sqliteLogSession) Subscribe(context.Context) error { return nil }

// Consume implements Session.
func (s *sqliteLogSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	from, to, err := s.tail.claim(ctx, uint64(limit))
	if err != nil {
		return 0, err
	}
	if err := s.handle(ctx, from, to, handle); err != nil {
		return 0, err
	}
	err = s.write(ctx, func() error {
		_, err := s.advance.ExecContext(ctx, int64(to))
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(to - from + 1), nil
}

func (s *sqliteLogSession) handle(ctx context.Context, from, to uint64, handle func([]byte)) error {
	rows, err := s.read.QueryContext(ctx, int64(from), int64(to))
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err says it
	var sequence, micros int64
	var id, key, kind string
	var metadata sql.NullString
	var payload []byte
	for rows.Next() {
		if err := rows.Scan(&sequence, &id, &micros, &key, &kind, &metadata, &payload); err != nil {
			return err
		}
		handle(payload)
	}
	return rows.Err()
}

// Flush implements Session: every Consume has committed already.
func (*sqliteLogSession) Flush(context.Context) error { return nil }

// Close implements Session.
func (s *sqliteLogSession) Close() (err error) {
	for _, stmt := range []*sql.Stmt{s.insert, s.advance, s.read} {
		if stmt != nil {
			err = errors.Join(err, stmt.Close())
		}
	}
	for _, conn := range []*sql.Conn{s.writer, s.reader} {
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	return errors.Join(err, s.db.Close())
}
