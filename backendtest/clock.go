package backendtest

import (
	"sync"
	"time"
)

// Clock is the time that the suite drives a backend by. It stands still unless
// told to advance. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a fixed moment: with nanoseconds, and in a zone
// other than UTC, since neither must show in what a backend returns.
func NewClock() *Clock {
	zone := time.FixedZone("UTC+5:30", 5*60*60+30*60)
	return &Clock{now: time.Date(2026, 1, 31, 23, 59, 30, 123_456_789, zone)}
}

// Now implements [rheo.Clock].
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
