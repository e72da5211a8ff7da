package rheo_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// blocked is a handler that notes when and why its ctx ends, and returns then, or
// after the time.
type blocked struct {
	causes chan error
	most   time.Duration
}

func newBlocked(d time.Duration) *blocked { return &blocked{causes: make(chan error, 1000), most: d} }

func (b *blocked) handle(ctx context.Context, _ *rheo.Delivery) error {
	select {
	case <-time.After(b.most):
		return nil
	case <-ctx.Done():
		b.causes <- context.Cause(ctx)
		return ctx.Err()
	}
}

// ended returns how many handlers' ctxs have ended, and fails the test if any
// ended for another cause.
func (b *blocked) ended(t *testing.T, cause error) int {
	t.Helper()
	synctest.Wait()
	n := len(b.causes)
	for range n {
		if err := <-b.causes; !errors.Is(err, cause) {
			t.Errorf("a handler's ctx ended with %v, want %v", err, cause)
		}
	}
	return n
}

// A handler that takes ten leases has its event to itself, and what is buffered
// behind it is held as long.
func TestRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 5)...)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: 10 * time.Second, Concurrency: 2,
			Handler: seen.by(newBlocked(100 * time.Second).handle),
		})
		synctest.Wait()
		rival := b.startOn(b.instance(), rheo.GroupOptions{Handler: func(_ context.Context, d *rheo.Delivery) error {
			b.t.Errorf("%s was handed to another", d.ID)
			return nil
		}})
		time.Sleep(99 * time.Second)
		for at, c := range b.store.Calls(faultbackend.Renew) {
			if due := time.Duration(at+1) * 5 * time.Second; c.At.Sub(seen.start) != due || len(c.Leases) != 5 {
				b.t.Errorf("renewal %d after %v of %d leases, want after %v of all 5", at+1, c.At.Sub(seen.start), len(c.Leases), due)
			}
		}
		// While draining, too: two run, three are given back.
		rival.stop()
		run.cancel()
		synctest.Wait()
		b.store.Forget()
		time.Sleep(time.Second)
		run.stop()
		equal(b.t, "handled", sorted(seen.ids()), []string{"e1/1", "e2/1"})
	})
}

func TestRenewalWhileDraining(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 3)...)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: 2 * time.Second, Concurrency: 2,
			Handler: seen.by(newBlocked(20 * time.Second).handle),
		})
		synctest.Wait()
		run.stop() // within DrainTimeout
		if n := len(b.store.Calls(faultbackend.Renew)); !within(time.Duration(n), 19, 20) {
			b.t.Errorf("%d renewals in 20 s, want one a second", n)
		}
		if info := b.info(); info.Lag() != 1 || info.Waiting() != 1 || info.InFlight() != 0 {
			b.t.Errorf("%+v", info)
		}
		equal(b.t, "handled", sorted(seen.ids()), []string{"e1/1", "e2/1"})
	})
}

// A slow renewal takes nothing off the time until the next.
func TestRenewalOfSlowStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		b.store.Inject(faultbackend.DelayReply(4*time.Second), faultbackend.Renew)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: 10 * time.Second,
			Handler:       seen.by(newBlocked(60 * time.Second).handle),
		})
		time.Sleep(61 * time.Second)
		run.stop()
		for at, c := range b.store.Calls(faultbackend.Renew) {
			if due := time.Duration(at+1) * 5 * time.Second; c.At.Sub(seen.start) != due {
				b.t.Errorf("renewal %d after %v, want %v", at+1, c.At.Sub(seen.start), due)
			}
		}
		equal(b.t, "handled", seen.ids(), []string{"e/1"})
	})
}

// A renewal that hangs is given up in time for another.
func TestRenewalHangs(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		b.store.Inject(faultbackend.Times(1, faultbackend.Hold(nil)), faultbackend.Renew)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: 4 * time.Second, PollInterval: time.Hour, // nobody asks for what has expired
			Handler: seen.by(newBlocked(60 * time.Second).handle),
		})
		time.Sleep(61 * time.Second)
		run.stop()
		renewals := b.store.Calls(faultbackend.Renew)
		if again := renewals[1].At.Sub(seen.start); again > 4*time.Second+100*time.Millisecond {
			b.t.Errorf("the second renewal came after %v", again)
		}
		equal(b.t, "handled", seen.ids(), []string{"e/1"})
		equal(b.t, "settled", b.settlements(), []string{"ack e"})
	})
}

// A store that is away for a while costs no lease that it did not give to others.
func TestRenewalOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 3)...)
		seen := newHandled()
		work := newBlocked(60 * time.Second)
		run := b.start(rheo.GroupOptions{LeaseDuration: 10 * time.Second, Handler: seen.by(work.handle)})
		synctest.Wait()
		back := b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable))
		time.Sleep(25 * time.Second)
		back()
		time.Sleep(60 * time.Second)
		run.stop()
		equal(b.t, "handled", sorted(seen.ids()), []string{"e1/1", "e2/1", "e3/1"})
		if n := work.ended(b.t, nil); n != 0 || b.lag() != 0 {
			b.t.Errorf("%d handlers' ctxs ended, lag %d", n, b.lag())
		}
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
			n := 0
			for _, line := range b.logs.at(level, "operation") {
				if line == "store operation fails; going on trying: renew" || line == "store operation works again: renew" {
					n++
				}
			}
			if n != 1 {
				b.t.Errorf("%d lines at %v about renewals, want one: %v", n, level, b.logs.at(level, "operation"))
			}
		}
	})
}

// While renewals fail the runtime fetches nothing: it would be handed what its own
// handlers hold, as soon as that has expired.
func TestNoFetchWhileRenewalsFail(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("long")
		back := b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Renew)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{LeaseDuration: 2 * time.Second, Handler: seen.by(func(ctx context.Context, d *rheo.Delivery) error {
			if d.ID == "long" {
				return newBlocked(time.Minute).handle(ctx, d)
			}
			return nil
		})})
		time.Sleep(10 * time.Second)
		b.append("short")
		time.Sleep(10 * time.Second)
		equal(b.t, "handled", seen.ids(), []string{"long/1"})
		back()
		time.Sleep(2 * time.Second)
		equal(b.t, "handled", seen.ids(), []string{"long/1", "short/1"})
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "handled", seen.ids(), []string{"long/1", "short/1"})
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// A lease that is expired but not taken may still be settled.
func TestSettleAfterExpiry(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Renew)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: time.Second, PollInterval: time.Hour,
			Handler: seen.by(newBlocked(time.Minute).handle),
		})
		time.Sleep(time.Hour - time.Second)
		run.stop()
		equal(b.t, "settled", b.settlements(), []string{"ack e"})
		if lag := b.lag(); lag != 0 || len(slices.Compact(seen.ids())) != 1 {
			b.t.Errorf("lag %d, handled %v", lag, seen.ids())
		}
	})
}
