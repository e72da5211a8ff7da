package embedded

import "sync"

// watchers are those who wait for a stream. The zero value has none. (The root
// module has the like, for itself: its internal packages may differ by version.)
type watchers struct {
	mu  sync.RWMutex
	all map[chan struct{}]struct{}
}

// watch returns a channel that receives after each wake; hints that nobody has
// taken coalesce. After stop has returned no more are sent.
func (w *watchers) watch() (hints <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[chan struct{}]struct{})
	}
	w.all[c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, c)
	}
}

func (w *watchers) wake() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for c := range w.all {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
