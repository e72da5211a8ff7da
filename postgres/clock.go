package postgres

import (
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// storeClock tells the store's time, which is the database's. Between two
// answers that carried it, it is the last one plus the time that has passed here
// since: two hosts' clocks are never compared.
type storeClock struct {
	override rheo.Clock // tests
	last     atomic.Pointer[sample]
}

// sample is what the database's clock said at a moment here.
type sample struct {
	here  time.Time // with its monotonic reading
	store time.Time
}

// freshness bounds the age of a sample, so that what the two clocks drift apart,
// or a failover to another host, stays small.
const freshness = 10 * time.Second

// parameter is the statements' argument "now": NULL has the database look at its
// own clock.
func (c *storeClock) parameter() *int64 {
	if c.override == nil {
		return nil
	}
	now := c.override.Now().UnixMicro()
	return &now
}

// note takes an answer that carried the database's time, to a question sent at
// sent.
func (c *storeClock) note(sent time.Time, micros int64) time.Time {
	store := time.UnixMicro(micros).UTC()
	received := time.Now()
	c.last.Store(&sample{here: sent.Add(received.Sub(sent) / 2), store: store})
	return store
}

// now returns the time, if it is known well enough.
func (c *storeClock) now() (time.Time, bool) {
	if c.override != nil {
		return c.override.Now().UTC().Truncate(time.Microsecond), true
	}
	last := c.last.Load()
	if last == nil {
		return time.Time{}, false
	}
	since := time.Since(last.here)
	return last.store.Add(since).Truncate(time.Microsecond), since < freshness
}
