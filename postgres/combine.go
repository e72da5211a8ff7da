package postgres

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rheo-go/rheo"
)

// appendCall is one caller's append.
type appendCall struct {
	ctx      context.Context //nolint:containedctx // the call's own, and it ends with the call
	rows     *columns
	expected rheo.ExpectedSequence
	done     chan struct{} // closed once slots and err are set

	slots []*slot
	err   error
	left  error // set instead if the caller left before that
}

func newAppendCall(ctx context.Context, r rheo.AppendRequest) (*appendCall, error) {
	c := &appendCall{ctx: ctx, rows: newColumns(len(r.Events)), expected: r.Expected, done: make(chan struct{})}
	for i := range r.Events {
		if err := c.rows.add(&r.Events[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// What one transaction carries at most, if more than one call is in it.
const (
	mostRows  = 1000
	mostBytes = 4 << 20
)

// largeBatch is from how many events on a call shares with its own partition's
// alone, if it has but one: partitions then go side by side.
const largeBatch = 32

// lane returns the combiner for the call.
func (s *stream) lane(c *appendCall) *combiner {
	if c.rows.len() >= largeBatch {
		if one, only := c.rows.onePartitionOnly(); only {
			return &s.lanes[one]
		}
	}
	return &s.appends
}

// combiner makes one transaction out of the appends that queue up while one is
// under way: as many callers as there are share its round trip and its flush.
type combiner struct {
	mu      sync.Mutex
	busy    bool
	waiting []*appendCall
}

// combine runs the call: at once, on the caller's own goroutine, if nothing is
// under way, or with those that wait beside it.
func (b *Backend) combine(s *stream, call *appendCall) {
	q := s.lane(call)
	q.mu.Lock()
	if q.busy {
		q.waiting = append(q.waiting, call)
		q.mu.Unlock()
		call.wait(q)
		return
	}
	q.busy = true
	q.mu.Unlock()
	call.err = b.appendAll(call.ctx, s, []*appendCall{call})
	b.passOn(s, q)
}

// passOn has the calls that wait run on a goroutine of their own.
func (b *Backend) passOn(s *stream, q *combiner) {
	q.mu.Lock()
	q.busy = len(q.waiting) > 0
	busy := q.busy
	q.mu.Unlock()
	if !busy {
		return
	}
	b.running.Run(func() {
		for calls := q.next(); len(calls) > 0; calls = q.next() {
			b.appendTogether(s, calls)
			runtime.Gosched() // who just got an answer may have more, which then goes along
		}
	})
}

// next takes the calls for one transaction; when none waits, the next caller
// begins on its own again.
func (q *combiner) next() []*appendCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows, bytes, n := 0, 0, 0
	for _, c := range q.waiting {
		rows += c.rows.len()
		bytes += c.rows.bytes
		if n > 0 && (rows > mostRows || bytes > mostBytes) {
			break
		}
		n++
	}
	calls := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if n == 0 {
		q.busy, q.waiting = false, nil
	}
	return calls
}

// appendTogether runs calls in one transaction, for as long as one of their
// callers is there. If it is refused, each runs alone: what is wrong with one is
// no other's business.
func (b *Backend) appendTogether(s *stream, calls []*appendCall) {
	ctx, stop := whileWanted(calls)
	err := b.appendAll(ctx, s, calls)
	stop()
	if len(calls) > 1 && errors.Is(err, rheo.ErrFailed) {
		for _, c := range calls {
			b.appendTogether(s, []*appendCall{c})
		}
		return
	}
	for _, c := range calls {
		c.err = err
		close(c.done)
	}
}

// whileWanted returns a context that ends when the last of the callers' has.
func whileWanted(calls []*appendCall) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(calls[0].ctx))
	var here atomic.Int64
	here.Store(int64(len(calls)))
	stops := make([]func() bool, len(calls))
	for i, c := range calls {
		stops[i] = context.AfterFunc(c.ctx, func() {
			if here.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// wait returns when the call is done, or soon after its context has ended.
func (c *appendCall) wait(q *combiner) {
	select {
	case <-c.done:
	case <-c.ctx.Done():
		c.leave(q)
	}
}

func (c *appendCall) leave(q *combiner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, waiting := range q.waiting {
		if waiting == c {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			c.left = rheo.WrapError(rheo.ErrUnavailable, c.ctx.Err(), "the context ended while the append waited for its turn; nothing was appended")
			return
		}
	}
	c.left = rheo.WrapError(rheo.ErrAmbiguous, c.ctx.Err(), "the context ended while the append was under way; repeat it to find out")
}

// failure is the error to return. If the caller left before it was done, that is
// it, and nothing else of the call may be looked at.
func (c *appendCall) failure() error {
	if c.left != nil {
		return c.left
	}
	return c.err
}
