package rheo

import (
	"testing"
	"testing/synctest"
	"time"
)

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetries()
		asked := time.Now()
		if due := r.next(asked); !due.IsZero() {
			t.Errorf("next of none: %v", due)
		}
		for _, delay := range []time.Duration{0, -1} {
			r.add(delay)
			if !received(r.now) || received(r.changed) {
				t.Errorf("a delay of %v is not due at once", delay)
			}
		}
		for _, ms := range []int{30, 10, 20, 10, 10} {
			r.add(time.Duration(ms) * time.Millisecond)
		}
		if !received(r.changed) || received(r.now) || len(r.due) != 3 {
			t.Errorf("due: %v", r.due)
		}
		if due := r.next(asked).Sub(asked); due != 11*time.Millisecond {
			t.Errorf("next after %v, want one millisecond more than asked for: never early", due)
		}
		// What became due since the store was asked is not forgotten.
		time.Sleep(15 * time.Millisecond)
		if due := r.next(asked).Sub(asked); due != 11*time.Millisecond {
			t.Errorf("next after %v", due)
		}
		if due := r.next(time.Now()).Sub(asked); due != 21*time.Millisecond {
			t.Errorf("next after %v", due)
		}
		if due := r.next(asked.Add(time.Hour)); !due.IsZero() {
			t.Errorf("next after all: %v", due)
		}
	})
}

// Of too many the last are forgotten: they cost a poll, when their time comes.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetries()
		asked := time.Now()
		for n := range maxRetries {
			r.add(time.Hour + time.Duration(n)*time.Second)
		}
		r.add(2 * time.Hour)
		r.add(time.Second)
		r.add(2 * time.Second)
		if len(r.due) != maxRetries {
			t.Errorf("%d remembered", len(r.due))
		}
		if due := r.next(asked).Sub(asked); due != 1001*time.Millisecond {
			t.Errorf("next after %v", due)
		}
		last := r.due[len(r.due)-1].Sub(asked)
		if want := time.Hour + (maxRetries-3)*time.Second + time.Millisecond; last != want {
			t.Errorf("the last after %v, want %v", last, want)
		}
	})
}
