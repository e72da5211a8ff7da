package embedded

import (
	"context"
	"sync"

	"github.com/rheo-go/rheo"
)

// committer is the one goroutine that writes to the database. It takes whatever
// waits, applies all of it in one transaction, and answers when that is on disk;
// what comes meanwhile waits for the next. So nobody waits for a timer, and a slow
// disk makes commits larger, not rarer.
type committer struct {
	b       *Backend
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{}
	stopped chan struct{}
	arena   arena
}

// request is a call that waits for a commit.
type request struct {
	// stage applies the call to the batch. An error refuses this call alone, and
	// then stage has changed nothing.
	stage func(*batch) error
	size  int
	batch *batch        // set when the committer takes it
	err   error         // set before done is closed
	done  chan struct{} // closed when the commit has ended
}

// maxCommitSize bounds the bytes of events that a commit takes on, so that no
// caller waits for an unbounded number of others.
const maxCommitSize = 8 << 20

func startCommitter(b *Backend) *committer {
	c := &committer{b: b, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go c.run()
	return c
}

// do has the committer run stage, and returns when what it did is on disk. If ctx
// ends first the error is ErrUnavailable if nothing will happen any more, else
// ErrAmbiguous; in both cases stage has been called, or never will be.
func (c *committer) do(ctx context.Context, size int, stage func(*batch) error) error {
	r := &request{stage: stage, size: size, done: make(chan struct{})}
	if err := c.submit(r); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if c.withdraw(r) {
		return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended while waiting to write; nothing was changed")
	}
	<-r.batch.staged
	select {
	case <-r.done:
		return r.err
	default:
		return rheo.WrapError(rheo.ErrAmbiguous, ctx.Err(), "the context ended during the write")
	}
}

func (c *committer) submit(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed(c.b.dir)
	}
	c.waiting = append(c.waiting, r)
	c.signal()
	return nil
}

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a request back, if the committer has not taken it.
func (c *committer) withdraw(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.batch != nil {
		return false
	}
	for i := range c.waiting {
		if c.waiting[i] == r {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			break
		}
	}
	return true
}

// close ends the committer after everything that waits.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.signal()
	c.mu.Unlock()
	<-c.stopped
}

func (c *committer) run() {
	defer close(c.stopped)
	for range c.wake {
		for {
			requests, ended := c.take()
			if len(requests) > 0 {
				c.commit(requests)
				continue
			}
			if ended {
				return
			}
			break
		}
	}
}

// take returns what waits, up to the size of a commit.
func (c *committer) take() (requests []*request, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.waiting) && (n == 0 || size+c.waiting[n].size <= maxCommitSize) {
		size += c.waiting[n].size
		n++
	}
	if n == 0 {
		return nil, c.closed
	}
	bt := newBatch(c.b)
	requests = append(make([]*request, 0, n), c.waiting[:n]...)
	for _, r := range requests {
		r.batch = bt
	}
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return requests, false
}

func (c *committer) commit(requests []*request) {
	bt := requests[0].batch
	c.arena.reset()
	bt.arena = &c.arena
	err := bt.run(func() {
		for _, r := range requests {
			r.err = r.stage(bt)
		}
	})
	for _, r := range requests {
		// A refusal may rest on what another call of the batch would have done.
		if err != nil {
			r.err = err
		}
		close(r.done)
	}
}
