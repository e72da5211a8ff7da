package wake

import (
	"sync"
	"testing"
)

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestHub(t *testing.T) {
	t.Parallel()
	var h Hub
	h.Wake() // nobody watches
	first, stopFirst := h.Watch()
	second, stopSecond := h.Watch()
	if received(first) || received(second) {
		t.Error("a hint from before the watch began")
	}
	h.Wake()
	h.Wake()
	if !received(first) || received(first) {
		t.Error("two hints that nobody took must make one")
	}
	stopFirst()
	h.Wake()
	if received(first) {
		t.Error("a hint after stop")
	}
	if !received(second) {
		t.Error("no hint for the one that still watches")
	}
	stopFirst() // twice is harmless
	stopSecond()
	if len(h.watchers) != 0 {
		t.Errorf("%d watchers left", len(h.watchers))
	}
}

// Whoever looks before each wait misses nothing, however many make work at once.
func TestHubLosesNoHint(t *testing.T) {
	t.Parallel()
	const makers, each = 4, 500
	var h Hub
	var mu sync.Mutex
	made := 0
	hints, stop := h.Watch()
	defer stop()
	var all sync.WaitGroup
	for range makers {
		all.Go(func() {
			for range each {
				mu.Lock()
				made++
				mu.Unlock()
				h.Wake()
			}
		})
	}
	for seen := 0; seen < makers*each; {
		<-hints
		mu.Lock()
		seen = made
		mu.Unlock()
	}
	all.Wait()
}

// Watching and waking go on at once.
func TestHubConcurrently(t *testing.T) {
	t.Parallel()
	var h Hub
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				hints, stop := h.Watch()
				h.Wake()
				if !received(hints) {
					t.Error("no hint")
				}
				stop()
			}
		})
	}
	all.Wait()
	if len(h.watchers) != 0 {
		t.Errorf("%d watchers left", len(h.watchers))
	}
}
