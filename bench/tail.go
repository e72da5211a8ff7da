package bench

import (
	"context"
	"sync"
)

// tail hands out the sequences of a log, each once, as they are committed. It is
// what consumers of a bare log within one process share.
type tail struct {
	mu    sync.Mutex
	high  uint64        // the last sequence committed
	next  uint64        // the last sequence handed to a consumer
	grown chan struct{} // closed and replaced when high grows
}

func newTail() *tail { return &tail{grown: make(chan struct{})} }

// grow says that everything up to last is committed.
func (t *tail) grow(last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last > t.high {
		t.high = last
		close(t.grown)
		t.grown = make(chan struct{})
	}
}

// claim waits for events that no consumer has and returns the range it took.
func (t *tail) claim(ctx context.Context, limit uint64) (from, to uint64, err error) {
	for {
		t.mu.Lock()
		if t.next < t.high {
			from, to = t.next+1, min(t.next+limit, t.high)
			t.next = to
			t.mu.Unlock()
			return from, to, nil
		}
		grown := t.grown
		t.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
}
