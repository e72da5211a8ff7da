// Package wake passes hints from those who make work to those who wait for it. It
// is for those who write backends that are a rheo.Waiter within one process.
package wake

import "sync"

// Hub sends a hint to each of its watchers. The zero value is ready. It is safe
// for concurrent use, and sending never blocks.
type Hub struct {
	mu       sync.RWMutex
	watchers map[chan struct{}]struct{}
}

// Watch returns a channel that receives after each Wake; hints that nobody has
// taken coalesce. After stop has returned no more are sent.
func (h *Hub) Watch() (hints <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[chan struct{}]struct{})
	}
	h.watchers[c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, c)
	}
}

// Wake hints every watcher.
func (h *Hub) Wake() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for c := range h.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
