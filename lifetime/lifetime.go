// Package lifetime is for what a backend runs between calls: a context that ends
// when the backend is closed, and the goroutines that Close waits for. It is for
// those who write backends.
package lifetime

import (
	"context"
	"sync"
	"time"
)

// Context is the context of what runs between calls: it ends when it is closed.
// Make one with make.
type Context chan struct{}

var _ context.Context = Context(nil)

// Deadline implements [context.Context].
func (Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (c Context) Done() <-chan struct{} { return c }

// Err implements [context.Context].
func (c Context) Err() error {
	select {
	case <-c:
		return context.Canceled
	default:
		return nil
	}
}

// Value implements [context.Context].
func (Context) Value(any) any { return nil }

// Crew is the goroutines that run between calls. The zero value is ready, and safe
// for concurrent use.
type Crew struct {
	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// Run has f run on a goroutine of its own; or here and now, once End has been
// called, for what callers still wait for.
func (c *Crew) Run(f func()) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.all.Go(f)
	}
	c.mu.Unlock()
	if ended {
		f()
	}
}

// End waits for them, and lets no more begin.
func (c *Crew) End() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.all.Wait()
}
