package rheo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// storeFault is one way in which a call can go wrong.
type storeFault struct {
	name    string
	class   error
	applied bool // the store did what it was asked to, and the reply was lost
	perItem bool // the result of an item, not of the call
}

// storeFaults are all classes of error, as an item's result and as a call's.
func storeFaults() (all []storeFault) {
	for _, class := range []error{
		rheo.ErrStaleLease, rheo.ErrReceiptMismatch, rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrInvalid,
	} {
		for _, perItem := range []bool{false, true} {
			for _, applied := range []bool{false, true} {
				if applied && !errors.Is(class, rheo.ErrAmbiguous) {
					continue // the others promise that nothing was changed
				}
				f := storeFault{name: class.Error() + " of the call", class: class, applied: applied, perItem: perItem}
				if perItem {
					f.name = class.Error() + " of the item"
				}
				if applied {
					f.name += ", applied"
				}
				all = append(all, f)
			}
		}
	}
	return all
}

// once makes the operation's first call go wrong.
func (f storeFault) once() faultbackend.Fault {
	err := rheo.WrapError(f.class, errors.New("injected"), "for a test")
	each := func(*rheo.Lease) error { return err }
	fault := faultbackend.Fail(err)
	switch {
	case f.perItem && f.applied:
		fault = faultbackend.LoseItems(each)
	case f.perItem:
		fault = faultbackend.Items(each)
	case f.applied:
		fault = faultbackend.LoseReply(err)
	}
	return faultbackend.Times(1, fault)
}

func (f storeFault) is(classes ...error) bool {
	for _, c := range classes {
		if errors.Is(f.class, c) {
			return true
		}
	}
	return false
}

const (
	policyLease = 10 * time.Second
	policyPoll  = time.Second
	policyDelay = 3 * time.Second
)

// fate is what becomes of an event.
type fate struct {
	settled []string         // what the store was asked
	again   [2]time.Duration // when it is handled again, at least and at most; not if the last is 0
	attempt int              // that time
	dead    []string
}

var (
	atOnce    = [2]time.Duration{0, time.Millisecond}
	afterward = [2]time.Duration{policyDelay, policyDelay + policyPoll}
	expired   = [2]time.Duration{policyLease, policyLease + policyPoll}
)

// TestSettlePolicy is the settlement diagram: for each outcome that a handler may
// ask for, and each way in which settling it may go wrong.
func TestSettlePolicy(t *testing.T) {
	t.Parallel()
	outcomes := map[string]func() error{
		"ack":     func() error { return nil },
		"nack":    func() error { return rheo.RetryAfter(errHandler, policyDelay) },
		"reject":  func() error { return rheo.Reject(errHandler) },
		"release": func() error { return rheo.Release(errHandler) },
	}
	// What was applied though the reply was lost stands.
	applied := map[string]fate{
		"ack":     {settled: []string{"ack e"}},
		"nack":    {settled: []string{"nack e", "ack e"}, again: afterward, attempt: 2},
		"reject":  {settled: []string{"reject e"}, dead: []string{"e: the handler's own"}},
		"release": {settled: []string{"release e", "ack e"}, again: atOnce, attempt: 1},
	}
	for outcome, first := range outcomes {
		for _, fault := range storeFaults() {
			var want fate
			switch {
			case fault.applied:
				want = applied[outcome]
			case fault.is(rheo.ErrFailed, rheo.ErrInvalid) && outcome == "nack":
				// Asked once more, as the handler wanted it.
				want = fate{settled: []string{"nack e", "nack e", "ack e"}, again: afterward, attempt: 2}
			case fault.is(rheo.ErrFailed, rheo.ErrInvalid):
				want = fate{settled: []string{outcome + " e", "nack e", "ack e"}, again: atOnce, attempt: 2}
			default:
				// Lost, or left to expire: in this store the lease runs out either way.
				want = fate{settled: []string{outcome + " e", "ack e"}, again: expired, attempt: 2}
			}
			t.Run(outcome+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(b *bench) {
					b.store.Inject(fault.once(), faultbackend.Settle)
					b.meets(first, want)
				})
			})
		}
	}
}

// meets lets a handler do what first does with the first attempt, and ack what
// comes later.
func (b *bench) meets(first func() error, want fate) {
	b.t.Helper()
	b.append("e")
	seen := newHandled()
	run := b.start(rheo.GroupOptions{
		LeaseDuration: policyLease, PollInterval: policyPoll,
		Handler: seen.by(func(context.Context, *rheo.Delivery) error {
			if len(seen.all()) > 1 {
				return nil
			}
			return first()
		}),
	})
	b.pass(time.Minute)
	run.stop()

	equal(b.t, "settled", b.settlements(), want.settled)
	equal(b.t, "dead letters", b.deadLetters(), want.dead)
	if lag := b.lag(); lag != 0 {
		b.t.Errorf("lag %d at the end", lag)
	}
	all, again := seen.all(), want.again[1] > 0
	switch {
	case len(all) > 2 || again != (len(all) == 2):
		b.t.Errorf("handled %v, want a second time: %v", all, again)
	case again && (all[1].attempt != want.attempt || !within(all[1].at, want.again[0], want.again[1])):
		b.t.Errorf("handled %v, want attempt %d after %v", all, want.attempt, want.again)
	}
}

// A nack that stands in for a refused outcome is not itself repeated.
func TestFallbackRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		refuse := faultbackend.Fail(rheo.Errorf(rheo.ErrFailed, "disk full"))
		b.store.Inject(faultbackend.Times(2, refuse), faultbackend.Settle)
		b.meets(func() error { return nil }, fate{
			settled: []string{"ack e", "nack e", "ack e"}, again: expired, attempt: 2,
		})
	})
}

// The reason of the nack names what was refused.
func TestFallbackReason(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		refuse := faultbackend.Fail(rheo.Errorf(rheo.ErrFailed, "disk full"))
		b.store.Inject(faultbackend.Times(1, refuse), faultbackend.Settle)
		var reason string
		run := b.start(rheo.GroupOptions{Handler: func(_ context.Context, d *rheo.Delivery) error {
			reason = d.LastReason
			return nil
		}})
		b.pass(time.Second)
		run.stop()
		if reason != "ack failed: rheo: failed: disk full" {
			b.t.Errorf("last reason %q", reason)
		}
	})
}

// One settled item never drags another along.
func TestItemsSettleByThemselves(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var mu sync.Mutex
		results := map[string]error{
			"e2": rheo.ErrStaleLease, "e3": rheo.ErrReceiptMismatch, "e4": rheo.ErrUnavailable, "e5": rheo.ErrFailed,
		}
		b.store.Inject(faultbackend.Items(func(l *rheo.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			defer delete(results, l.ID) // the second time goes through
			return results[l.ID]
		}), faultbackend.Settle)
		b.append(names("e", 6)...)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			LeaseDuration: policyLease, PollInterval: policyPoll, Concurrency: 6,
			Handler: seen.by(func(context.Context, *rheo.Delivery) error {
				b.pass(time.Second) // all end together
				return nil
			}),
		})
		b.pass(2 * time.Second)
		equal(b.t, "handled first", sorted(seen.ids()), []string{"e1/1", "e2/1", "e3/1", "e4/1", "e5/1", "e5/2", "e6/1"})
		b.pass(time.Minute)
		run.stop()
		equal(b.t, "handled then", sorted(seen.ids()[7:]), []string{"e2/2", "e3/2", "e4/2"})
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// TestRenewPolicy: a lost lease ends its handler and is not nacked; whatever else
// goes wrong with a renewal is tried again in time, and the handler goes on.
func TestRenewPolicy(t *testing.T) {
	t.Parallel()
	for _, fault := range storeFaults() {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *bench) {
				b.store.Inject(fault.once(), faultbackend.Renew)
				lost := fault.is(rheo.ErrStaleLease, rheo.ErrReceiptMismatch)
				start := time.Now()
				var cause error
				var ended time.Duration
				work := func(ctx context.Context, _ *rheo.Delivery) error {
					select {
					case <-time.After(12 * time.Second):
					case <-ctx.Done():
						cause, ended = context.Cause(ctx), time.Since(start)
					}
					return nil
				}
				b.append("e")
				seen := newHandled()
				run := b.start(rheo.GroupOptions{LeaseDuration: policyLease, PollInterval: policyPoll, Handler: seen.by(work)})
				b.pass(time.Minute)
				run.stop()

				equal(b.t, "settled", b.settlements(), []string{"ack e"})
				if lag := b.lag(); lag != 0 {
					b.t.Errorf("lag %d at the end", lag)
				}
				if lost {
					equal(b.t, "handled", seen.ids(), []string{"e/1", "e/2"})
					if !errors.Is(cause, rheo.ErrStaleLease) || ended != policyLease/2 {
						b.t.Errorf("the handler's ctx ended after %v with %v", ended, cause)
					}
					return
				}
				equal(b.t, "handled", seen.ids(), []string{"e/1"})
				if cause != nil {
					b.t.Errorf("the handler's ctx ended after %v with %v", ended, cause)
				}
				renewals := b.store.Calls(faultbackend.Renew)
				if retried := renewals[1].At.Sub(renewals[0].At); !within(retried, 75*time.Millisecond, 100*time.Millisecond) {
					b.t.Errorf("the renewal was tried again after %v", retried)
				}
			})
		})
	}
}

// TestFetchPolicy: what waiting can mend is waited for; what was leased without a
// reply comes back when the lease expires.
func TestFetchPolicy(t *testing.T) {
	t.Parallel()
	for _, fault := range storeFaults() {
		if fault.perItem {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *bench) {
				b.store.Inject(fault.once(), faultbackend.Fetch)
				b.append("e")
				seen := newHandled()
				run := b.start(rheo.GroupOptions{LeaseDuration: policyLease, PollInterval: policyPoll, Handler: seen.by(nil)})
				b.pass(time.Minute)
				if fault.is(rheo.ErrInvalid) {
					if err := run.wait(); !errors.Is(err, rheo.ErrInvalid) || len(seen.ids()) > 0 {
						b.t.Errorf("Run: %v, handled %v", err, seen.ids())
					}
					return
				}
				run.stop()
				want, when := "e/1", [2]time.Duration{75 * time.Millisecond, 100 * time.Millisecond}
				if fault.applied {
					want, when = "e/2", expired
				}
				equal(b.t, "handled", seen.ids(), []string{want})
				if at := seen.all()[0].at; !within(at, when[0], when[1]) {
					b.t.Errorf("handled after %v, want %v", at, when)
				}
			})
		})
	}
}
