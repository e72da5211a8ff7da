package rheo

import (
	"sync"
	"testing"
	"time"
)

func TestIDsRise(t *testing.T) {
	t.Parallel()
	var source idSource
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	last := ""
	rises := func(at time.Time) {
		t.Helper()
		id := source.next(at)
		if id <= last {
			t.Fatalf("%s comes after %s", id, last)
		}
		last = id
	}
	for range 10000 { // more than a millisecond has
		rises(start)
	}
	rises(start.Add(-900 * time.Millisecond))
	rises(start.Add(time.Second))
	rises(start.Add(time.Second + time.Nanosecond))
	if want := "019de368-f9e8-7"; last[:len(want)] != want {
		t.Errorf("%s is not of its time, want %s", last, want)
	}
}

// A clock that was set back far is right now, and was wrong before.
func TestIDsFollowTheClock(t *testing.T) {
	t.Parallel()
	var source idSource
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ahead := source.next(start.Add(time.Hour))
	id := source.next(start)
	if id >= ahead {
		t.Errorf("%s is still ahead, after %s", id, ahead)
	}
}

func TestIDsRiseForEachCaller(t *testing.T) {
	t.Parallel()
	var source idSource
	now := time.Now()
	var mu sync.Mutex
	made := make(map[string]bool)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			last := ""
			for range 1000 {
				id := source.next(now)
				if id[:18] <= last {
					t.Errorf("%s comes after %s", id, last)
				}
				last = id[:18]
				mu.Lock()
				made[id[:18]] = true
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	if len(made) != 4000 {
		t.Errorf("%d times in 4000 IDs", len(made))
	}
}
