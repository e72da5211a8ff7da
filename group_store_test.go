package rheo_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// outages are what the runtime says of a store that is away.
func (b *bench) outages() []string {
	return append(b.logs.at(slog.LevelWarn, "operation"), b.logs.at(slog.LevelInfo, "operation")...)
}

// A store that is away is asked less and less often, is reported once, and is
// there again without a restart.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	for _, op := range []faultbackend.Op{faultbackend.Group, faultbackend.Fetch} {
		bubble(t, func(b *bench) {
			operation := string(op)
			back := b.store.Inject(faultbackend.Fail(rheo.WrapError(rheo.ErrUnavailable, errors.New("no route"), "")), op)
			seen := newHandled()
			run := b.start(rheo.GroupOptions{
				StoreBackoff: rheo.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
				Handler:      seen.by(nil),
			})
			time.Sleep(10 * time.Minute)
			calls := b.store.Calls(op)
			for at, ms := range []int{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000} {
				want := time.Duration(ms) * time.Millisecond
				if wait := calls[at+1].At.Sub(calls[at].At); !within(wait, want*3/4, want) {
					b.t.Errorf("%s: waited %v after failure %d, want up to a quarter less than %v", op, wait, at+1, want)
				}
			}
			equal(b.t, "reported", b.outages(), []string{"store operation fails; going on trying: " + operation})
			b.append("e") // the hint does not cut the wait short: the store is away
			synctest.Wait()
			back()
			time.Sleep(5 * time.Second)
			equal(b.t, "handled", seen.ids(), []string{"e/1"})
			equal(b.t, "reported", b.outages(), []string{
				"store operation fails; going on trying: " + operation, "store operation works again: " + operation,
			})
			// Away again: the backoff and the reports start anew.
			b.store.Forget()
			b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Fetch)
			time.Sleep(time.Minute)
			calls = b.store.Calls(faultbackend.Fetch)
			for calls[0].Err == nil {
				calls = calls[1:]
			}
			if wait := calls[1].At.Sub(calls[0].At); !within(wait, 75*time.Millisecond, 100*time.Millisecond) {
				b.t.Errorf("%s: the second outage began with %v", op, wait)
			}
			if warnings := b.logs.at(slog.LevelWarn, ""); len(warnings) != 2 {
				b.t.Errorf("%s: two outages, warnings %v", op, warnings)
			}
			run.stop()
		})
	}
}

// The jitter spreads those who failed together.
func TestStoreBackoffVaries(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Fetch)
		run := b.start(rheo.GroupOptions{
			StoreBackoff: rheo.Backoff{Min: time.Second, Max: time.Second}, Handler: newHandled().by(nil),
		})
		time.Sleep(100 * time.Second)
		run.stop()
		waits := make(map[time.Duration]bool)
		calls := b.store.Calls(faultbackend.Fetch)
		for at := range calls[1:] {
			waits[calls[at+1].At.Sub(calls[at].At)] = true
		}
		if len(waits) < 50 {
			b.t.Errorf("%d different waits of %d", len(waits), len(calls)-1)
		}
	})
}

// A store that refuses every settle is reported once, and not once for each pair
// of a refusal and the nack in its place.
func TestRefusalsAreReportedOnce(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 100}, func(b *bench) {
		b.append("e")
		full := rheo.Errorf(rheo.ErrFailed, "disk full")
		acks := func(c *faultbackend.Call) bool { return c.Settlements[0].Outcome == rheo.OutcomeAck }
		back := b.store.Inject(faultbackend.When(acks, faultbackend.Fail(full)), faultbackend.Settle)
		run := b.start(rheo.GroupOptions{Handler: func(context.Context, *rheo.Delivery) error {
			time.Sleep(time.Second)
			return nil
		}})
		time.Sleep(20500 * time.Millisecond)
		equal(b.t, "reported", b.outages(), []string{"store operation fails; going on trying: settle"})
		back()
		time.Sleep(time.Second)
		run.stop()
		equal(b.t, "reported", b.outages(), []string{
			"store operation fails; going on trying: settle", "store operation works again: settle",
		})
	})
}

// What is appended is handled at once; without hints, at the next poll.
func TestHints(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		seen := newHandled()
		run := b.start(rheo.GroupOptions{PollInterval: time.Minute, Handler: seen.by(nil)})
		time.Sleep(90 * time.Second)
		b.append("e")
		time.Sleep(time.Second)
		run.stop()
		if all := seen.all(); len(all) != 1 || all[0].at != 90*time.Second {
			b.t.Errorf("handled %v", all)
		}
		if n := b.store.Count(faultbackend.Fetch); n > 4 { // at first, at 60 s, for e, and to see that there is no more
			b.t.Errorf("%d fetches", n)
		}
	})
}

// mute is a backend without hints.
type mute struct{ rheo.Backend }

func TestWithoutHints(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		quiet, err := rheo.New(mute{b.store}, nil)
		b.must(err)
		seen := newHandled()
		run := b.startOn(quiet, rheo.GroupOptions{PollInterval: 10 * time.Second, Concurrency: 1, Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
			switch {
			case d.ID == "retry" && d.Attempt == 1:
				return rheo.RetryAfter(nil, 1500*time.Millisecond)
			case d.ID == "release" && len(seen.all()) == 4:
				return rheo.Release(nil)
			}
			return nil
		})})
		time.Sleep(5 * time.Second)
		b.append("plain", "retry")
		time.Sleep(9 * time.Second)
		b.append("release")
		time.Sleep(26 * time.Second)
		b.append("late")
		time.Sleep(9 * time.Second)
		run.stop()
		all := seen.all()
		equal(b.t, "handled", seen.ids(), []string{"plain/1", "retry/1", "retry/2", "release/1", "release/1", "late/1"})
		for at, ms := range []int{10000, 10000, 11501, 21501, 21501, 41501} {
			want := time.Duration(ms) * time.Millisecond
			if len(all) == 6 && !within(all[at].at, want-2*time.Millisecond, want+2*time.Millisecond) {
				b.t.Errorf("%s was handled after %v, want %v", all[at].id, all[at].at, want)
			}
		}
	})
}

// A hint that comes while the store is asked is not lost.
func TestHintDuringFetch(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.slowFetch(time.Second)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{PollInterval: time.Hour, Handler: seen.by(nil)})
		time.Sleep(500 * time.Millisecond) // the store has said that there is nothing
		b.append("e")
		time.Sleep(10 * time.Second)
		run.stop()
		if all := seen.all(); len(all) != 1 || all[0].at > 2*time.Second {
			b.t.Errorf("handled %v", all)
		}
	})
}

// Room that is made while the loop is busy is not overlooked: with hints and polls
// off, every event is handled all the same.
func TestNoRoomIsOverlooked(t *testing.T) {
	t.Parallel()
	for demand := 1; demand <= 12; demand++ {
		bubble(t, func(b *bench) {
			b.append(names("e", 300)...)
			quiet, err := rheo.New(mute{b.store}, nil)
			b.must(err)
			all := make(chan struct{})
			run := b.startOn(quiet, rheo.GroupOptions{
				Concurrency: 1 + demand/3, MaxDemand: 1 + demand, PollInterval: time.Hour, Handler: countTo(300, all),
			})
			start := time.Now()
			<-all
			run.stop()
			if took := time.Since(start); took != 0 {
				b.t.Errorf("MaxDemand %d: took %v", 1+demand, took)
			}
		})
	}
}

// Every call to the store is bounded, so that one that hangs is got over.
func TestHangingCalls(t *testing.T) {
	t.Parallel()
	for _, op := range []faultbackend.Op{faultbackend.Group, faultbackend.Fetch, faultbackend.Settle} {
		for name, fault := range map[string]faultbackend.Fault{"call": faultbackend.Hold(nil), "reply": faultbackend.HoldReply(nil)} {
			bubble(t, func(b *bench) {
				b.append(names("e", 3)...)
				b.store.Inject(faultbackend.Times(1, fault), op)
				var handled atomic.Int32
				run := b.start(rheo.GroupOptions{
					SettleTimeout: 2 * time.Second, LeaseDuration: 10 * time.Second,
					Handler: func(context.Context, *rheo.Delivery) error {
						handled.Add(1)
						return nil
					},
				})
				time.Sleep(20 * time.Second)
				run.stop()
				if took := b.store.Calls(op)[0].Took; took != 2*time.Second {
					b.t.Errorf("%s of %s: given up after %v", name, op, took)
				}
				if b.lag() != 0 || handled.Load() < 3 {
					b.t.Errorf("%s of %s: lag %d, %d handled", name, op, b.lag(), handled.Load())
				}
			})
		}
	}
}
