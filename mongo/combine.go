package mongo

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rheo-go/rheo"
)

// appendCall is one caller's append.
type appendCall struct {
	ctx     context.Context //nolint:containedctx // the call's own, and it ends with the call
	request rheo.AppendRequest
	bytes   int
	done    chan struct{} // closed once results and err are set

	results []rheo.AppendResult
	err     error
}

// What several calls together carry at most.
const (
	mostEvents = 1000
	mostBytes  = 4 << 20
)

// combiner makes one append out of those that queue up while one is under way: as
// many callers as there are share its commands and its commit documents.
type combiner struct {
	mu      sync.Mutex
	busy    bool
	waiting []*appendCall
}

// combine runs the call: at once, on the caller's own goroutine, if nothing is
// under way, or with those that wait beside it.
func (b *Backend) combine(s *stream, call *appendCall) ([]rheo.AppendResult, error) {
	q := &s.appends
	q.mu.Lock()
	if q.busy {
		q.waiting = append(q.waiting, call)
		q.mu.Unlock()
		return call.wait(q)
	}
	q.busy = true
	q.mu.Unlock()
	b.appendAll(call.ctx, s, []*appendCall{call})
	b.passOn(s, q)
	return call.results, call.err
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
			ctx, stop := whileWanted(calls)
			b.appendAll(ctx, s, calls)
			stop()
			for _, c := range calls {
				close(c.done)
			}
		}
	})
}

// next takes the calls to run together; when none waits, the next caller begins on
// its own again.
func (q *combiner) next() []*appendCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, bytes, n := 0, 0, 0
	for _, c := range q.waiting {
		events += len(c.request.Events)
		bytes += c.bytes
		if n > 0 && (events > mostEvents || bytes > mostBytes) {
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
func (c *appendCall) wait(q *combiner) ([]rheo.AppendResult, error) {
	select {
	case <-c.done:
		return c.results, c.err
	case <-c.ctx.Done():
		return nil, c.leave(q)
	}
}

func (c *appendCall) leave(q *combiner) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, waiting := range q.waiting {
		if waiting == c {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return rheo.WrapError(rheo.ErrUnavailable, c.ctx.Err(), "the context ended while the append waited for its turn; nothing was appended")
		}
	}
	return rheo.WrapError(rheo.ErrAmbiguous, c.ctx.Err(), "the context ended while the append was under way; repeat it to find out")
}
