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
	now     chan struct{} // receives when something is due at once
	changed chan struct{} // receives when due has changed

	mu  sync.Mutex
	due []time.Time // ascending
}

const maxRetries = 1000

func newRetries() *retries {
	return &retries{now: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// add notes that something becomes due after the delay.
func (r *retries) add(delay time.Duration) {
	if delay <= 0 {
		signal(r.now)
		return
	}
	at := time.Now().Add(delay).Truncate(time.Millisecond).Add(time.Millisecond) // many at once make one
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.due, at, time.Time.Compare)
	if found || i == maxRetries {
		return
	}
	r.due = slices.Insert(r.due[:min(len(r.due), maxRetries-1)], i, at) // the last makes room
	signal(r.changed)
}

// next returns the earliest time after since, or zero, and forgets those before.
func (r *retries) next(since time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.due, since.Add(1), time.Time.Compare)
	r.due = slices.Delete(r.due, 0, i)
	if len(r.due) == 0 {
		return time.Time{}
	}
	return r.due[0]
}

// signal makes c, which holds one, receive.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
