package mongo

import (
	"context"
	"sync"
	"time"
)

// lifetime is the context of what runs here between calls: it ends when it is
// closed.
type lifetime chan struct{}

var _ context.Context = lifetime(nil)

// Deadline implements [context.Context].
func (lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (l lifetime) Done() <-chan struct{} { return l }

// Err implements [context.Context].
func (l lifetime) Err() error {
	select {
	case <-l:
		return context.Canceled
	default:
		return nil
	}
}

// Value implements [context.Context].
func (lifetime) Value(any) any { return nil }

// crew is the goroutines that run between calls. Close waits for them.
type crew struct {
	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// run has f run on a goroutine of its own; or here and now, once Close has been
// called, for what callers still wait for.
func (c *crew) run(f func()) {
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

func (c *crew) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.all.Wait()
}
