package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"time"

	"github.com/rheo-go/rheo"
)

const (
	// stintLimit is how long the writer keeps a connection that others may want.
	stintLimit = 50 * time.Millisecond
	// linger is how long it keeps one that it has no use for: a caller that writes
	// again and again finds its statements prepared.
	linger = 10 * time.Millisecond
	// While other processes write, the writer pauses for breath once every
	// breathEvery, so that they come by the lock.
	breath      = 2 * time.Millisecond
	breathEvery = 20 * time.Millisecond
	// contentionMemory is for how long another writer is taken to be there still.
	contentionMemory = time.Second
	// commitPatience is how long a commit waits for readers, who hold it up if
	// the journal mode is not WAL.
	commitPatience = 30 * time.Second
)

// stint writes on one connection until nothing waits or the time is up.
func (w *writer) stint(ctx context.Context, conn *sql.Conn) {
	s := &session{q: conn, texts: w.texts, prepares: true}
	restore, err := takeBusyTimeout(ctx, s)
	if err != nil {
		finish(w.take(), failure(writing, err))
	}
	whole := true
	for start := time.Now(); whole && time.Since(start) < stintLimit && w.more(ctx); {
		whole = w.round(ctx, s)
	}
	whole = restore() && whole
	s.close()
	if !whole {
		// The pool must not hand out a connection that may be in a transaction.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = conn.Close() // there is nothing left on it that could fail
}

// takeBusyTimeout has SQLite report a lock at once, so that the waiting is done
// here: SQLite's own is in ever longer steps, and cannot be given up. restore sets
// back what the host had set, and returns false if that failed.
func takeBusyTimeout(ctx context.Context, s *session) (restore func() bool, err error) {
	var milliseconds int
	if _, err := s.one(ctx, "busy-timeout", []any{&milliseconds}); err != nil || milliseconds == 0 {
		return func() bool { return true }, err
	}
	set := func(to int) error {
		return s.eachText(ctx, s.texts["busy-timeout"]+" = "+strconv.Itoa(to), func(*sql.Rows) error { return nil })
	}
	return func() bool { return set(milliseconds) == nil }, set(0)
}

// more waits a moment for something to do, if nothing is, unless the connection is
// the pool's only one.
func (w *writer) more(ctx context.Context) bool {
	if w.waiting() {
		return true
	}
	if w.db.Stats().MaxOpenConnections == 1 {
		return false
	}
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		select {
		case <-w.arrived: // possibly a call that is done already
			if w.waiting() {
				return true
			}
			if w.isClosed() {
				return false
			}
		case <-timer.C:
			return w.waiting()
		case <-ctx.Done():
			return false
		}
	}
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// round is one transaction. It returns false if the connection is in an unknown
// state.
func (w *writer) round(ctx context.Context, s *session) (whole bool) {
	w.breathe(ctx)
	err := w.begin(ctx, s, w.waiting)
	switch {
	case errors.Is(err, errNobodyWaits):
		return true
	case err != nil:
		finish(w.take(), failure(writing, err))
		return true
	}
	writes := w.take()
	if len(writes) == 0 {
		return rollback(ctx, s)
	}
	return w.together(ctx, s, writes)
}

var errNobodyWaits = errors.New("nobody waits any more")

// begin takes the write lock of the database, however long others hold it, while
// somebody waits for that.
func (w *writer) begin(ctx context.Context, s *session, wanted func() bool) error {
	var lock contention
	for {
		_, err := s.exec(ctx, "begin")
		if err == nil || !isBusy(err) {
			return err
		}
		w.contended = time.Now()
		if !wanted() {
			return errNobodyWaits
		}
		if err := lock.pause(ctx); err != nil {
			return err
		}
	}
}

// breathe leaves the lock alone for a moment if others want it: between two
// transactions that follow each other they would hardly find it free.
func (w *writer) breathe(ctx context.Context) {
	now := time.Now()
	if now.Sub(w.contended) > contentionMemory || now.Sub(w.breathed) < breathEvery {
		return
	}
	_ = sleep(ctx, breath) // ctx does not end
	w.breathed = time.Now()
}

// together runs the calls in the transaction that was begun, and ends it. If one
// breaks the transaction, each gets one of its own.
func (w *writer) together(ctx context.Context, s *session, writes []*write) (whole bool) {
	tx := newTransaction(s, w.cache)
	err := tx.runAll(ctx, writes)
	if err == nil && tx.changes == 0 {
		whole = rollback(ctx, s)
		tx.committed()
		closeAll(writes)
		return whole
	}
	if err == nil {
		err = commit(ctx, s, writes[0].batch)
	}
	if err == nil {
		tx.committed()
		closeAll(writes)
		return true
	}
	whole = rollback(ctx, s)
	err = failure(writing, err)
	if len(writes) > 1 && whole && !errors.Is(err, rheo.ErrAmbiguous) {
		return w.oneByOne(ctx, s, writes)
	}
	finish(writes, err)
	return whole
}

func closeAll(writes []*write) {
	for _, call := range writes {
		close(call.done)
	}
}

func (w *writer) oneByOne(ctx context.Context, s *session, writes []*write) (whole bool) {
	for i := range writes {
		if err := w.begin(ctx, s, func() bool { return true }); err != nil {
			finish(writes[i:], failure(writing, err))
			return true
		}
		if !w.together(ctx, s, writes[i:i+1]) {
			finish(writes[i+1:], rheo.Errorf(rheo.ErrUnavailable, "the connection was lost"))
			return false
		}
	}
	return true
}

// runAll returns an error if the transaction is to be rolled back. What a call
// reports of itself alone is that call's.
func (t *transaction) runAll(ctx context.Context, writes []*write) error {
	for _, call := range writes {
		before := t.changes
		call.err = call.run(ctx, t)
		var broken *driverError
		if call.err != nil && (t.changes != before || errors.As(call.err, &broken)) {
			return call.err
		}
	}
	return t.flush(ctx)
}

// commit returns an error that is classified already if COMMIT was answered by one.
func commit(ctx context.Context, s *session, b *batch) error {
	if !b.sent {
		b.sent = true
		close(b.committing)
	}
	var readers contention
	for start := time.Now(); ; {
		_, err := s.exec(ctx, "commit")
		switch {
		case err == nil:
			return nil
		case !isBusy(err):
			return failure(committing, err)
		case time.Since(start) > commitPatience:
			// The transaction is still open, and will be rolled back.
			return failure(writing, err)
		}
		if err := readers.pause(ctx); err != nil {
			return failure(writing, err)
		}
	}
}

// rollback returns false if the connection may still be in the transaction.
func rollback(ctx context.Context, s *session) bool {
	_, err := s.exec(ctx, "rollback")
	if err == nil {
		return true
	}
	code, ok := resultCode(err)
	return ok && code == codeError // SQLite has rolled it back by itself
}
