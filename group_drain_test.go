package rheo_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// drainWays are the ways to end a run that has nothing wrong with it.
var drainWays = map[string]func(r *running){
	"ctx":   func(r *running) { r.cancel() },
	"drain": func(r *running) { go func() { _ = r.Drain(context.Background()) }() },
}

// What no handler has begun is given back at once and has spent no attempt; what
// runs ends in its own time, and its outcome is settled.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, drain := range drainWays {
		for _, ordering := range []rheo.Ordering{rheo.OrderingNone, rheo.OrderingPartition} {
			bubbleWith(t, 2, rheo.GroupConfig{Ordering: ordering}, func(b *bench) {
				b.appendTo(0, names("e", 10)...)
				b.appendTo(1, names("f", 10)...)
				seen := newHandled()
				work := newBlocked(20 * time.Second)
				run := b.start(rheo.GroupOptions{Concurrency: 2, MaxDemand: 20, Handler: seen.by(work.handle)})
				time.Sleep(time.Second)
				drain(run)
				synctest.Wait()
				if n := len(b.settlements()); n != 18 || run.InFlight() != 2 {
					b.t.Errorf("%s, %s: %d given back at once, %d in flight", name, ordering, n, run.InFlight())
				}
				if run.hasEnded() {
					b.t.Errorf("%s, %s: Run has not waited for the handlers", name, ordering)
				}
				time.Sleep(18900 * time.Millisecond)
				if run.hasEnded() || work.ended(b.t, nil) > 0 {
					b.t.Errorf("%s, %s: the handlers' ctxs ended early", name, ordering)
				}
				time.Sleep(200 * time.Millisecond)
				if !run.hasEnded() || run.wait() != nil {
					b.t.Errorf("%s, %s: Run has not returned nil: %v", name, ordering, run.err)
				}
				if len(seen.ids()) != 2 || b.lag() != 18 {
					b.t.Errorf("%s, %s: handled %v, lag %d", name, ordering, seen.ids(), b.lag())
				}
				leases, err := b.Fetch(b.t.Context(), "stream", "group", rheo.FetchOptions{Max: 20})
				b.must(err)
				for _, l := range leases {
					if l.Attempt != 1 {
						b.t.Errorf("%s, %s: %s is on attempt %d", name, ordering, l.ID, l.Attempt)
					}
				}
			})
		}
	}
}

// What comes of a fetch that was under way when the drain began is given back
// though no worker is free.
func TestDrainDuringFetch(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("busy")
		run := b.start(rheo.GroupOptions{Concurrency: 1, MaxDemand: 10, Handler: newBlocked(20 * time.Second).handle})
		synctest.Wait()
		b.slowFetch(2 * time.Second)
		b.append(names("e", 5)...)
		time.Sleep(time.Second)
		run.cancel()
		time.Sleep(1001 * time.Millisecond)
		equal(b.t, "given back", sorted(b.settlements()), []string{"release e1", "release e2", "release e3", "release e4", "release e5"})
		run.stop()
	})
}

func TestDrainReturns(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		run := b.start(rheo.GroupOptions{Handler: newBlocked(10 * time.Second).handle})
		if err := run.Drain(b.t.Context()); err != nil {
			b.t.Errorf("Drain before Run has begun: %v", err)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		if err := run.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			b.t.Errorf("Drain: %v after %v", err, time.Since(start))
		}
		if err := run.Drain(b.t.Context()); !errors.Is(err, rheo.ErrAlreadyDraining) {
			b.t.Errorf("a second Drain: %v", err)
		}
		if run.hasEnded() {
			b.t.Error("Run did not wait for the handler")
		}
		if err := run.wait(); err != nil || time.Since(start) != 9*time.Second {
			b.t.Errorf("Run: %v, %v after Drain", err, time.Since(start))
		}
		if err := run.Drain(b.t.Context()); err != nil || b.lag() != 0 {
			b.t.Errorf("Drain after Run: %v, lag %d", err, b.lag())
		}
	})
}

// Drain waits, also for a drain that ctx has begun, until all is settled.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.append("e")
			b.store.Inject(faultbackend.Delay(time.Second), faultbackend.Settle)
			run := b.start(rheo.GroupOptions{Handler: newBlocked(5 * time.Second).handle})
			start := time.Now()
			synctest.Wait()
			if cancelled {
				run.cancel()
			}
			if err := run.Drain(b.t.Context()); err != nil || time.Since(start) != 6*time.Second || b.lag() != 0 {
				b.t.Errorf("Drain: %v after %v, lag %d", err, time.Since(start), b.lag())
			}
			if n := run.InFlight(); n != 0 || !run.hasEnded() {
				b.t.Errorf("%d in flight", n)
			}
		})
	}
}

// DrainTimeout ends the handlers' ctxs, from the beginning of the drain on,
// whatever the store is doing.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.append("e")
			seen := newHandled()
			work := newBlocked(time.Hour)
			run := b.start(rheo.GroupOptions{DrainTimeout: 3 * time.Second, SettleTimeout: 10 * time.Second, Handler: seen.by(work.handle)})
			synctest.Wait()
			if hangs {
				b.store.Inject(faultbackend.Hold(nil), faultbackend.Fetch)
				b.append("f")
				synctest.Wait()
			}
			run.cancel()
			time.Sleep(2900 * time.Millisecond)
			if n := work.ended(b.t, nil); n != 0 {
				b.t.Error("the handler's ctx ended early")
			}
			time.Sleep(200 * time.Millisecond)
			if n := work.ended(b.t, rheo.ErrClosed); n != 1 {
				b.t.Error("the handler's ctx has not ended")
			}
			run.stop()
			// It said so, and is nacked as any other error.
			equal(b.t, "settled", b.settlements(), []string{"nack e"})
			if took, most := time.Since(seen.start), 3*time.Second; !hangs && took > most+100*time.Millisecond {
				b.t.Errorf("took %v", took)
			}
		})
	}
}

// A store that is away, or does not answer, does not hold up a drain for longer
// than SettleTimeout allows.
func TestDrainWithoutStore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultbackend.Fault{
		"away": faultbackend.Fail(rheo.ErrUnavailable), "hangs": faultbackend.Hold(nil),
	} {
		bubble(t, func(b *bench) {
			b.append(names("e", 5)...)
			run := b.start(rheo.GroupOptions{
				Concurrency: 2, LeaseDuration: 4 * time.Second, SettleTimeout: 5 * time.Second,
				Handler: newBlocked(3 * time.Second).handle,
			})
			time.Sleep(time.Second)
			b.store.Inject(fault)
			start := time.Now()
			run.stop()
			// A settle of what is given back, and one of what is handled.
			if took := time.Since(start); took > 11*time.Second || name == "away" && took > 3*time.Second {
				b.t.Errorf("%s: took %v", name, took)
			}
			if n := run.InFlight(); n != 0 {
				b.t.Errorf("%s: %d in flight", name, n)
			}
		})
	}
}

// A renewal that hangs when everything is settled is not waited for, and is no
// outage.
func TestDrainCutsRenewalOff(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		b.store.Inject(faultbackend.Hold(nil), faultbackend.Renew)
		run := b.start(rheo.GroupOptions{LeaseDuration: 10 * time.Second, Handler: newBlocked(6 * time.Second).handle})
		start := time.Now()
		synctest.Wait()
		run.stop()
		if took := time.Since(start); took != 6*time.Second {
			b.t.Errorf("took %v", took)
		}
		equal(b.t, "warnings", b.logs.at(slog.LevelWarn, "operation"), nil)
	})
}

// Run ends at once while it still waits for the store to tell it of the group.
func TestDrainWhileOpening(t *testing.T) {
	t.Parallel()
	for faultName, fault := range map[string]faultbackend.Fault{
		"away": faultbackend.Fail(rheo.ErrUnavailable), "hangs": faultbackend.Hold(nil),
	} {
		for drainName, drain := range drainWays {
			bubble(t, func(b *bench) {
				b.store.Inject(fault, faultbackend.Group)
				b.append("e")
				run := b.start(rheo.GroupOptions{StoreBackoff: rheo.Backoff{Min: time.Minute, Max: time.Minute}, Handler: newHandled().by(nil)})
				time.Sleep(time.Second)
				start := time.Now()
				drain(run)
				if err := run.wait(); err != nil || time.Since(start) != 0 {
					b.t.Errorf("%s, %s: Run returned %v after %v", faultName, drainName, err, time.Since(start))
				}
				if n := b.store.Count(faultbackend.Fetch); n != 0 {
					b.t.Errorf("%s, %s: %d fetches", faultName, drainName, n)
				}
				if warnings := b.logs.at(slog.LevelWarn, "operation"); len(warnings) > 1 || faultName == "hangs" && len(warnings) > 0 {
					b.t.Errorf("%s, %s: %v", faultName, drainName, warnings)
				}
			})
		}
	}
}

// A ctx that has ended before Run leaves everything as it is.
func TestRunAfterTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		group, err := rheo.NewGroup(b.Instance, rheo.GroupOptions{Stream: "stream", Group: "group", Handler: newHandled().by(nil)})
		b.must(err)
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		if err := group.Run(ctx); err != nil {
			b.t.Error(err)
		}
		if n := b.store.Count(faultbackend.Fetch); n != 0 {
			b.t.Errorf("%d fetches", n)
		}
	})
}

// The handler's ctx keeps the values of Run's, and does not end with it.
func TestHandlerContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	bubble(t, func(b *bench) {
		b.append("e")
		ctx, cancel := context.WithCancel(context.WithValue(b.t.Context(), key{}, "value"))
		var ended func() error
		group, err := rheo.NewGroup(b.Instance, rheo.GroupOptions{
			Stream: "stream", Group: "group",
			Handler: func(ctx context.Context, _ *rheo.Delivery) error {
				cancel()
				time.Sleep(time.Second)
				if ctx.Value(key{}) != "value" || ctx.Err() != nil {
					b.t.Errorf("the handler's ctx: %v, %v", ctx.Value(key{}), ctx.Err())
				}
				ended = ctx.Err
				return nil
			},
		})
		b.must(err)
		b.must(group.Run(ctx))
		if ended() == nil {
			b.t.Error("the handler's ctx was not released")
		}
	})
}
