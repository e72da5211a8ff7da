// Package inflight holds what a runtime has leased and not yet settled: the set
// that a Group and a Producer share.
package inflight

import "sync"

// Set is a bounded set of leases in flight, by lease ID. It is safe for
// concurrent use.
type Set[V any] struct {
	limit int
	freed chan struct{}

	mu      sync.Mutex
	entries map[string]V
}

// New returns an empty set for up to limit entries.
func New[V any](limit int) *Set[V] {
	return &Set[V]{limit: limit, freed: make(chan struct{}, 1), entries: make(map[string]V)}
}

// Len is how many entries the set holds.
func (s *Set[V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Free is how many more entries the limit allows.
func (s *Set[V]) Free() int { return s.limit - s.Len() }

// Add puts entries in, by the ID that id gives each.
func (s *Set[V]) Add(entries []V, id func(V) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.entries[id(e)] = e
	}
}

// Get returns the entry of the ID.
func (s *Set[V]) Get(id string) (entry V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok = s.entries[id]
	return entry, ok
}

// Remove takes entries out. IDs that are not in the set are none of its business.
func (s *Set[V]) Remove(n int, id func(at int) string) {
	s.mu.Lock()
	for at := range n {
		delete(s.entries, id(at))
	}
	s.mu.Unlock()
	s.Nudge()
}

// All returns the entries as they are now.
func (s *Set[V]) All() []V {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]V, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	return all
}

// Freed receives after entries have been removed; what nobody takes coalesces.
func (s *Set[V]) Freed() <-chan struct{} { return s.freed }

// Nudge makes Freed receive.
func (s *Set[V]) Nudge() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
