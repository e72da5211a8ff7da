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

// lossWays are the ways in which a lease is lost to somebody else's doing.
var lossWays = map[string]func(b *bench, run *running){
	"replay": func(b *bench, _ *running) {
		_, err := b.Replay(b.t.Context(), "stream", "group", rheo.ReplaySelection{FromSequence: 1})
		b.must(err)
	},
	"reset": func(b *bench, _ *running) {
		b.must(b.ResetGroup(b.t.Context(), "stream", "group", rheo.ResetOptions{Confirm: true}))
	},
	"expiry, taken by another": func(b *bench, _ *running) {
		back := b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Renew)
		time.Sleep(11 * time.Second)
		leases, err := b.Fetch(b.t.Context(), "stream", "group", rheo.FetchOptions{Max: 10})
		b.must(err)
		if len(leases) != 2 {
			b.t.Errorf("the other took %d leases", len(leases))
		}
		back()
		b.must(b.Ack(b.t.Context(), leases...))
	},
}

// The handler's ctx ends when its lease is lost, and its outcome is dropped.
func TestLostLeases(t *testing.T) {
	t.Parallel()
	for name, lose := range lossWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *bench) {
				b.append("e1", "e2")
				work := newBlocked(time.Hour)
				var handlers atomic.Int32
				run := b.start(rheo.GroupOptions{
					LeaseDuration: 10 * time.Second, PollInterval: time.Hour, Concurrency: 2, MaxDemand: 2,
					Handler: func(ctx context.Context, d *rheo.Delivery) error {
						if handlers.Add(1) > 2 {
							return nil // those that come again
						}
						return work.handle(ctx, d)
					},
				})
				synctest.Wait()
				lose(b, run)
				time.Sleep(5 * time.Second) // the next renewal
				if n := work.ended(b.t, rheo.ErrStaleLease); n != 2 {
					b.t.Errorf("%d handlers' ctxs have ended, want 2", n)
				}
				time.Sleep(time.Minute)
				run.stop()
				if lag := b.lag(); lag != 0 {
					b.t.Errorf("lag %d", lag)
				}
				for _, s := range b.settlements() {
					if s != "ack e1" && s != "ack e2" {
						b.t.Errorf("an outcome that counts no more was settled: %v", b.settlements())
					}
				}
				if n := len(b.logs.at(slog.LevelWarn, "leases")); n == 0 {
					b.t.Error("nobody was told of the lost leases")
				}
			})
		})
	}
}

// Where the runtime itself is handed an event again, it need not wait for a
// renewal to know that the first lease is gone, and looks after all others.
func TestReplayEndsHandlersAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 3)...)
		work := newBlocked(time.Hour)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			PollInterval: time.Hour, Concurrency: 3, MaxDemand: 4,
			Handler: seen.by(func(ctx context.Context, d *rheo.Delivery) error {
				if len(seen.all()) > 3 {
					return nil
				}
				return work.handle(ctx, d)
			}),
		})
		synctest.Wait()
		// There is room for one more lease: that of e1 tells of one loss, and makes
		// the runtime ask after the others.
		_, err := b.Replay(b.t.Context(), "stream", "group", rheo.ReplaySelection{FromSequence: 1})
		b.must(err)
		if n := work.ended(b.t, rheo.ErrStaleLease); n != 3 {
			b.t.Errorf("%d of 3 handlers' ctxs have ended", n)
		}
		run.stop()
		if lag := b.lag(); lag != 0 || seen.mostAtOnce() > 3 {
			b.t.Errorf("lag %d, %d handlers at once", lag, seen.mostAtOnce())
		}
		equal(b.t, "handled again", sorted(seen.ids()[3:]), []string{"e1/1", "e2/1", "e3/1"})
		if all := seen.all(); all[len(all)-1].at != 0 {
			b.t.Errorf("all handled again after %v", all[len(all)-1].at)
		}
		equal(b.t, "settled", sorted(b.settlements()), []string{"ack e1", "ack e2", "ack e3"})
		if n := b.store.Count(faultbackend.Renew); n > 3 {
			b.t.Errorf("%d renewals", n)
		}
	})
}

// A settle that finds its lease lost makes the runtime look after the others.
func TestLossOfOneRaisesDoubt(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1", "e2")
		work := newBlocked(time.Hour)
		run := b.start(rheo.GroupOptions{
			Concurrency: 2, MaxDemand: 2, LeaseDuration: time.Hour, DrainTimeout: 1,
			Handler: func(ctx context.Context, d *rheo.Delivery) error {
				if d.ID == "e1" {
					time.Sleep(time.Second)
					return nil
				}
				return work.handle(ctx, d)
			},
		})
		synctest.Wait()
		b.must(b.ResetGroup(b.t.Context(), "stream", "group", rheo.ResetOptions{Confirm: true}))
		time.Sleep(time.Second)
		if n := work.ended(b.t, rheo.ErrStaleLease); n != 1 {
			b.t.Error("the other handler's ctx has not ended")
		}
		run.stop()
	})
}

// Replay again and again while handlers run that take no notice of their ctx.
func TestReplayKeepsConcurrency(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 50)...)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			Concurrency: 4, MaxDemand: 20, LeaseDuration: 10 * time.Second,
			Handler: seen.by(func(context.Context, *rheo.Delivery) error {
				time.Sleep(time.Second)
				return nil
			}),
		})
		for range 40 {
			time.Sleep(700 * time.Millisecond)
			_, err := b.Replay(b.t.Context(), "stream", "group", rheo.ReplaySelection{FromSequence: 1})
			b.must(err)
			if n := run.InFlight(); n > 20 {
				b.t.Errorf("%d in flight", n)
			}
			if info := b.info(); info.InFlight() > 20 {
				b.t.Errorf("%d leased", info.InFlight())
			}
		}
		time.Sleep(time.Minute)
		run.stop()
		if seen.mostAtOnce() != 4 {
			b.t.Errorf("%d handlers at once, want 4", seen.mostAtOnce())
		}
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// A settle of a group that was reset meanwhile is refused and dropped.
func TestSettleAfterReset(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		settled := make(chan struct{})
		b.store.Inject(butFirst(faultbackend.Hold(settled)), faultbackend.Fetch) // else the delivery may be fetched anew before its settle
		seen := newHandled()
		run := b.start(rheo.GroupOptions{Handler: seen.by(func(context.Context, *rheo.Delivery) error {
			if len(seen.all()) == 1 {
				b.must(b.ResetGroup(b.t.Context(), "stream", "group", rheo.ResetOptions{Confirm: true}))
			}
			return nil
		})})
		synctest.Wait()
		close(settled)
		time.Sleep(time.Second)
		run.stop()
		var results []error
		for _, c := range b.store.Calls(faultbackend.Settle) {
			results = append(results, c.Items...)
		}
		if len(results) != 2 || !errors.Is(results[0], rheo.ErrStaleLease) || results[1] != nil {
			b.t.Errorf("settled with the results %v", results)
		}
		equal(b.t, "handled", seen.ids(), []string{"e/1", "e/1"})
	})
}

// butFirst lets the first call through.
func butFirst(fault faultbackend.Fault) faultbackend.Fault {
	var calls atomic.Int32
	return func(ctx context.Context, c *faultbackend.Call, next faultbackend.Next) error {
		if calls.Add(1) == 1 {
			return next(ctx, c)
		}
		return fault(ctx, c, next)
	}
}
