// Package inflight holds what a runtime has leased and not yet settled: the set
// that a Group and a Producer share.
package inflight

import "sync"

// Place is where an event lies in its stream. A runtime holds at most one lease
// on it: who is handed a second has lost the first.
type Place struct {
	Partition int
	Sequence  int64
}

// Set is a bounded set of leases in flight. It is safe for concurrent use.
type Set[V comparable] struct {
	limit int
	place func(V) Place
	freed chan struct{}

	mu      sync.Mutex
	entries map[Place]V
}

// New returns an empty set for up to limit entries. place tells where an entry
// belongs; it must always say the same of the same entry.
func New[V comparable](limit int, place func(V) Place) *Set[V] {
	return &Set[V]{
		limit: limit, place: place,
		freed: make(chan struct{}, 1), entries: make(map[Place]V),
	}
}

// Len is how many entries the set holds.
func (s *Set[V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Free is how many more entries the limit allows.
func (s *Set[V]) Free() int { return s.limit - s.Len() }

// Add puts entries in, and returns those that had to make room at their place.
func (s *Set[V]) Add(entries []V) (displaced []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		place := s.place(e)
		if older, taken := s.entries[place]; taken && older != e {
			displaced = append(displaced, older)
		}
		s.entries[place] = e
	}
	return displaced
}

// Get returns the entry at the place.
func (s *Set[V]) Get(place Place) (entry V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok = s.entries[place]
	return entry, ok
}

// Remove takes entries out. Those that are not in the set, or no longer, are
// none of its business.
func (s *Set[V]) Remove(entries []V) {
	s.mu.Lock()
	for _, e := range entries {
		if place := s.place(e); s.entries[place] == e {
			delete(s.entries, place)
		}
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
