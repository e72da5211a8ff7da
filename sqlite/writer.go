package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
)

// writer is the one of this process that writes. What comes while a transaction is
// under way goes into the next, all of it together, so that many callers share
// the cost of a commit. Its goroutine lives while there is something to write.
type writer struct {
	db    *sql.DB
	texts statements
	cache *ledgerCache // of the goroutine

	mu      sync.Mutex
	queue   []*write
	running bool
	closed  bool
	abandon context.CancelFunc // ends the wait for a connection
	loop    sync.WaitGroup

	arrived   chan struct{} // receives when a call comes, or none may any more
	contended time.Time     // when another writer was met last; the goroutine's
	breathed  time.Time     // when it was last given way to
}

// write is one call. It may be run several times, each in a transaction of its
// own, of which the last counts.
type write struct {
	run   func(context.Context, *transaction) error
	batch *batch // nil while it waits
	err   error
	done  chan struct{}
}

// batch is the calls that share a transaction.
type batch struct {
	writes     []*write
	committing chan struct{} // closed when COMMIT is sent for the first time
	sent       bool          // whether it is closed
}

const (
	// maxShared bounds the calls in one transaction.
	maxShared = 512
	// commitGrace is how long a caller whose context has ended waits for the
	// outcome of a commit that was sent: most are much faster than that.
	commitGrace = 100 * time.Millisecond
)

func newWriter(db *sql.DB, texts statements) *writer {
	return &writer{
		db: db, texts: texts,
		cache:   &ledgerCache{kept: make(map[ledgerKey]keptLedger)},
		arrived: make(chan struct{}, 1),
	}
}

// do runs f in a transaction and returns when it is committed. f runs in another
// goroutine, and may run again if the transaction was rolled back on account of
// another call in it. An error that f returns must be from before it changed
// anything, unless it is the database's.
func (w *writer) do(ctx context.Context, f func(context.Context, *transaction) error) error {
	call := &write{run: f, done: make(chan struct{})}
	if err := w.enqueue(ctx, call); err != nil {
		return err
	}
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return w.leave(ctx, call)
	}
}

func (w *writer) enqueue(ctx context.Context, call *write) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed()
	}
	w.queue = append(w.queue, call)
	w.announce()
	if !w.running {
		w.running = true
		// What is under way for others does not end with this caller.
		ctx := context.WithoutCancel(ctx)
		w.loop.Go(func() { w.work(ctx) })
	}
	return nil
}

func (w *writer) announce() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// leave gives up waiting. A call that is being run is waited for: it works on the
// caller's arguments.
func (w *writer) leave(ctx context.Context, call *write) error {
	if w.withdraw(call) {
		return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended while other writers held the database")
	}
	select {
	case <-call.done:
		return call.err
	case <-call.batch.committing:
	}
	grace := time.NewTimer(commitGrace)
	defer grace.Stop()
	select {
	case <-call.done:
		return call.err
	case <-grace.C:
		return rheo.WrapError(rheo.ErrAmbiguous, ctx.Err(), "the context ended during the commit")
	}
}

// withdraw takes a call that still waits off the queue.
func (w *writer) withdraw(call *write) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.queue, call)
	if at < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, at, at+1)
	if len(w.queue) == 0 && w.abandon != nil {
		w.abandon()
	}
	return true
}

// close refuses what waits, and returns when what is under way has ended.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	refused := w.queue
	w.queue = nil
	w.announce()
	if w.abandon != nil {
		w.abandon()
	}
	w.mu.Unlock()
	finish(refused, errClosed())
	w.loop.Wait()
}

// finish ends calls that failed together. What one has found out by itself stands.
func finish(writes []*write, err error) {
	for _, call := range writes {
		var own *rheo.Error
		if !errors.As(call.err, &own) {
			call.err = err
		}
		close(call.done)
	}
}

// work goes on until nothing is left to do.
func (w *writer) work(ctx context.Context) {
	for {
		waiting, abandon := context.WithCancel(ctx)
		if !w.goOn(abandon) {
			abandon()
			return
		}
		conn, err := w.connect(waiting)
		if err == nil {
			w.stint(ctx, conn)
		} else if waiting.Err() == nil {
			finish(w.take(), failure(writing, &driverError{err}))
		}
		abandon()
	}
}

// connect waits for locks, too: a new connection takes some if its data source
// name sets the journal mode.
func (w *writer) connect(ctx context.Context) (*sql.Conn, error) {
	var lock contention
	for {
		conn, err := w.db.Conn(ctx)
		if err == nil || !isBusy(err) || lock.pause(ctx) != nil {
			return conn, err
		}
	}
}

func (w *writer) goOn(abandon context.CancelFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.abandon = abandon
	if len(w.queue) == 0 {
		w.running, w.abandon = false, nil
	}
	return w.running
}

func (w *writer) waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0
}

// take takes what waits off the queue.
func (w *writer) take() []*write {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxShared)
	b := &batch{writes: w.queue[:n:n], committing: make(chan struct{})}
	for _, call := range b.writes {
		call.batch = b
	}
	w.queue = append([]*write(nil), w.queue[n:]...)
	return b.writes
}
