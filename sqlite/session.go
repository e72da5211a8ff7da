package sqlite

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"time"
)

// queryer is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// session runs named statements. One that prepares keeps each statement until
// close.
type session struct {
	q     queryer
	texts statements
	// patience is how long a statement waits for a lock; 0 is not at all.
	patience time.Duration

	prepares bool
	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

// statement prepares without holding the lock: it may wait for a connection.
func (s *session) statement(ctx context.Context, name string) (*sql.Stmt, error) {
	s.mu.Lock()
	stmt := s.prepared[name]
	s.mu.Unlock()
	if stmt != nil {
		return stmt, nil
	}
	stmt, err := s.q.PrepareContext(ctx, s.texts[name])
	if err != nil {
		return nil, err
	}
	return s.keep(name, stmt), nil
}

func (s *session) keep(name string, stmt *sql.Stmt) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.prepared[name]; first != nil {
		_ = stmt.Close() // somebody else was faster; a statement not used yet has nothing to tell
		return first
	}
	if s.prepared == nil {
		s.prepared = make(map[string]*sql.Stmt)
	}
	s.prepared[name] = stmt
	return stmt
}

// close closes the statements. What they are on is closed by its owner.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stmt := range s.prepared {
		_ = stmt.Close() // the connection is all that could fail, and it tells its owner
	}
	s.prepared = nil
}

// exec returns the number of rows changed.
func (s *session) exec(ctx context.Context, name string, args ...any) (int64, error) {
	var affected int64
	err := s.patiently(ctx, func() error {
		result, err := s.execOnce(ctx, name, args)
		if err != nil {
			return err
		}
		affected, err = result.RowsAffected()
		return err
	})
	return affected, err
}

func (s *session) execOnce(ctx context.Context, name string, args []any) (sql.Result, error) {
	if !s.prepares {
		return s.q.ExecContext(ctx, s.texts[name], args...)
	}
	stmt, err := s.statement(ctx, name)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// each calls row for each row of the result.
func (s *session) each(ctx context.Context, name string, row func(*sql.Rows) error, args ...any) error {
	return s.patiently(ctx, func() error {
		rows, err := s.query(ctx, name, args)
		if err != nil {
			return err
		}
		return consume(rows, row)
	})
}

func (s *session) query(ctx context.Context, name string, args []any) (*sql.Rows, error) {
	if !s.prepares {
		return s.q.QueryContext(ctx, s.texts[name], args...)
	}
	stmt, err := s.statement(ctx, name)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// eachText is each for a statement without a name, which is not kept.
func (s *session) eachText(ctx context.Context, text string, row func(*sql.Rows) error, args ...any) error {
	return s.patiently(ctx, func() error {
		rows, err := s.q.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		return consume(rows, row)
	})
}

func consume(rows *sql.Rows, row func(*sql.Rows) error) error {
	defer rows.Close() //nolint:errcheck // Err tells first
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one scans the only row of the result; found is false if there is none.
func (s *session) one(ctx context.Context, name string, dest []any, args ...any) (found bool, err error) {
	err = s.each(ctx, name, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, args...)
	return found, err
}

// patiently repeats a statement that finds a lock taken. SQLite reports that
// before a statement's first row or change.
func (s *session) patiently(ctx context.Context, statement func() error) error {
	var wait contention
	for start := time.Now(); ; {
		err := statement()
		switch {
		case err == nil:
			return nil
		case s.patience == 0 || !isBusy(err) || time.Since(start) > s.patience || wait.pause(ctx) != nil:
			return &driverError{err}
		}
	}
}

// contention spaces the attempts at a lock that somebody else holds.
type contention struct{ attempts int }

const (
	shortestPause = 200 * time.Microsecond
	longestPause  = 4 * time.Millisecond
)

// pause waits a little longer each time, more or less, up to longestPause.
func (c *contention) pause(ctx context.Context) error {
	d := min(shortestPause<<min(c.attempts, 8), longestPause)
	c.attempts++
	return sleep(ctx, d/2+rand.N(d))
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
