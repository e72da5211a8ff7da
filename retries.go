package rheo

import (
	"slices"
	"sync"
	"time"
)

// retries remembers when deliveries that this process gave back become due, so
// that the fetch loop looks again then and not a poll interval later. It is a
// hint: it forgets what does not fit.
type retries struct {
	changed chan struct{}

	mu  sync.Mutex
	due []time.Time // ascending
}

const maxRetries = 1000

func newRetries() *retries { return &retries{changed: make(chan struct{}, 1)} }

func (r *retries) add(at time.Time) {
	at = at.Truncate(time.Millisecond).Add(time.Millisecond) // many at once make one
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.due, at, time.Time.Compare)
	if found || len(r.due) == maxRetries {
		return
	}
	r.due = slices.Insert(r.due, i, at)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// next returns the earliest time after now, or zero, and forgets those before.
func (r *retries) next(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.due, now.Add(1), time.Time.Compare)
	r.due = slices.Delete(r.due, 0, i)
	if len(r.due) == 0 {
		return time.Time{}
	}
	return r.due[0]
}
