package rheo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// Each way to settle does what it says, and frees the entry.
func TestProducerSettles(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 100}, func(b *bench) {
		b.append(names("e", 8)...)
		p := b.produce(rheo.ProducerOptions{RetryBackoff: rheo.Backoff{Min: time.Hour, Max: time.Hour}})
		l := b.leased(p, 8)
		ctx := b.t.Context()
		b.must(p.Ack(ctx, l[0]))
		b.must(p.Nack(ctx, "nacked", time.Minute, l[1]))
		b.must(p.Reject(ctx, "rejected", l[2]))
		b.must(p.Release(ctx, l[3]))
		b.must(p.Finish(ctx, l[4], nil))
		b.must(p.Finish(ctx, l[5], rheo.Reject(errHandler)))
		b.must(p.Finish(ctx, l[6], errHandler))
		results, err := p.Settle(ctx, rheo.Settlement{Lease: l[7], Outcome: rheo.OutcomeAck}, rheo.Settlement{Lease: l[0], Outcome: rheo.OutcomeAck})
		if err != nil || results[0] != nil || !errors.Is(results[1], rheo.ErrStaleLease) {
			b.t.Errorf("Settle: %v, %v", results, err)
		}
		p.expectInFlight(0)
		equal(b.t, "settled", b.settlements(), []string{
			"ack e1", "nack e2", "reject e3", "release e4", "ack e5", "reject e6", "nack e7", "ack e8", "ack e1",
		})
		equal(b.t, "dead letters", b.deadLetters(), []string{"e3: rejected", "e6: " + errHandler.Error()})
		equal(b.t, "at once", ids(b.leased(p, 1)), []string{"e4"})
		start := time.Now()
		again := b.leased(p, 1)
		if took := time.Since(start); again[0].ID != "e2" || again[0].Attempt != 2 || again[0].LastReason != "nacked" || !within(took, time.Minute, time.Minute+2*time.Millisecond) {
			b.t.Errorf("%+v after %v", again[0], took)
		}
		p.stop()
	})
}

func TestProducerRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.must(b.CreateGroup(b.t.Context(), "stream", "another", rheo.GroupConfig{}))
		b.append("e")
		foreign, err := b.Fetch(b.t.Context(), "stream", "another", rheo.FetchOptions{})
		b.must(err)
		p := b.produce(rheo.ProducerOptions{})
		for name, err := range map[string]error{
			"another group's": p.Ack(b.t.Context(), foreign...),
			"nil":             p.Ack(b.t.Context(), nil),
			"nil, finished":   p.Finish(b.t.Context(), nil, nil),
			"a long delay":    p.Nack(b.t.Context(), "", rheo.MaxDelay+1, b.leased(p, 1)...),
		} {
			if !errors.Is(err, rheo.ErrInvalid) {
				b.t.Errorf("%s: %v", name, err)
			}
		}
		p.expectInFlight(1)
		p.Confirm(nil, foreign[0])
		if ctx := p.Context(b.t.Context(), foreign[0]); !errors.Is(context.Cause(ctx), rheo.ErrStaleLease) {
			b.t.Errorf("the context of a lease it does not hold: %v", context.Cause(ctx))
		}
		if results, err := p.Settle(b.t.Context()); results != nil || err != nil {
			b.t.Errorf("nothing settled: %v, %v", results, err)
		}
		p.stop()
	})
}

// What concurrent callers settle joins into batches.
func TestProducerSettlesInBatches(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.store.Inject(faultbackend.Delay(time.Second), faultbackend.Settle)
		b.append(names("e", 100)...)
		p := b.produce(rheo.ProducerOptions{})
		start := time.Now()
		var all sync.WaitGroup
		for _, lease := range b.leased(p, 100) {
			all.Go(func() {
				if err := p.Ack(b.t.Context(), lease); err != nil {
					b.t.Error(err)
				}
			})
		}
		all.Wait()
		if n, took := b.store.Count(faultbackend.Settle), time.Since(start); n > 2 || took > 2*time.Second {
			b.t.Errorf("%d settles in %v", n, took)
		}
		p.stop()
	})
}

// What is received is renewed for as long as it is not settled, also while
// draining, and the producer holds it to itself.
func TestProducerRenews(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1", "e2")
		p := b.produce(rheo.ProducerOptions{LeaseDuration: 10 * time.Second, DrainTimeout: time.Hour})
		leases := b.leased(p, 2)
		time.Sleep(5 * time.Minute)
		p.cancel()
		time.Sleep(5 * time.Minute)
		if others := mustFetch(b); len(others) != 0 || p.hasEnded() {
			b.t.Errorf("others were handed %v", ids(others))
		}
		if n := b.store.Count(faultbackend.Renew); !within(time.Duration(n), 119, 121) {
			b.t.Errorf("%d renewals in 10 minutes", n)
		}
		b.must(p.Ack(b.t.Context(), leases...))
		if !p.hasEnded() || b.lag() != 0 {
			b.t.Errorf("Run has not returned, lag %d", b.lag())
		}
		p.stop()
	})
}

// A lease that is settled behind the producer's back is freed when confirmed, or,
// if that is lost, when its renewal is refused.
func TestProducerConfirm(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 3)...)
		p := b.produce(rheo.ProducerOptions{MaxDemand: 2, LeaseDuration: 10 * time.Second, PollInterval: time.Hour})
		leases := b.leased(p, 2)
		handling := p.Context(b.t.Context(), leases[0])
		b.must(b.Ack(b.t.Context(), leases...)) // as in a transaction of the host's
		third := p.receiveLater(b.t.Context(), 1)
		p.expectInFlight(2)
		p.Confirm(leases[0], leases[0])
		equal(b.t, "received", ids((<-third).leases), []string{"e3"})
		if handling.Err() == nil {
			b.t.Error("the context was not released")
		}
		p.expectInFlight(2)
		time.Sleep(5001 * time.Millisecond)
		p.expectInFlight(1)
		equal(b.t, "settled through the producer", b.settlements(), []string{"ack e1", "ack e2"})
		p.stop()
	})
}

// The contexts of a lost lease end, and what others hold does not wedge demand.
func TestProducerLosesLeases(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		type key struct{}
		b.append("e1", "e2")
		p := b.produce(rheo.ProducerOptions{MaxDemand: 2, LeaseDuration: 10 * time.Second, PollInterval: time.Hour})
		leases := b.leased(p, 2)
		parent, cancel := context.WithCancel(context.WithValue(b.t.Context(), key{}, "value"))
		defer cancel()
		first, second, child := p.Context(b.t.Context(), leases[0]), p.Context(b.t.Context(), leases[0]), p.Context(parent, leases[1])
		if child.Value(key{}) != "value" {
			b.t.Error("the context has not its parent's values")
		}
		cancel()
		if !errors.Is(child.Err(), context.Canceled) || first.Err() != nil {
			b.t.Error("a context ends with its parent, and no other does")
		}
		b.must(b.ResetGroup(b.t.Context(), "stream", "group", rheo.ResetOptions{Confirm: true}))
		time.Sleep(5001 * time.Millisecond)
		for _, ctx := range []context.Context{first, second, p.Context(b.t.Context(), leases[1])} {
			if !errors.Is(context.Cause(ctx), rheo.ErrStaleLease) {
				b.t.Errorf("ended with %v", context.Cause(ctx))
			}
		}
		p.expectInFlight(0)
		again := b.leased(p, 2)
		if err := p.Ack(b.t.Context(), leases[0]); !errors.Is(err, rheo.ErrStaleLease) {
			b.t.Errorf("the lost lease was acked: %v", err)
		}
		p.expectInFlight(2)
		b.must(p.Ack(b.t.Context(), again...))
		p.stop()
	})
}

// The policy of the settlement diagram; in each case the entry leaves flight, and
// the caller is told the class.
func TestProducerSettlePolicy(t *testing.T) {
	t.Parallel()
	for _, fault := range storeFaults() {
		bubble(t, func(b *bench) {
			b.append("e")
			p := b.produce(rheo.ProducerOptions{LeaseDuration: 10 * time.Second, PollInterval: time.Second})
			lease := b.leased(p, 1)[0]
			b.store.Inject(fault.once(), faultbackend.Settle)
			if err := p.Ack(p.Context(b.t.Context(), lease), lease); !errors.Is(err, fault.class) {
				b.t.Errorf("%s: Ack: %v", fault.name, err)
			}
			p.expectInFlight(0)
			refused := fault.is(rheo.ErrFailed, rheo.ErrInvalid)
			want := []string{"ack e"}
			if refused {
				want = append(want, "nack e")
			}
			equal(b.t, fault.name, b.settlements(), want)
			start := time.Now()
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
			defer cancel()
			again, err := p.Receive(ctx, 1)
			took := time.Since(start)
			switch {
			case fault.applied:
				if err == nil {
					b.t.Errorf("%s: %s came again", fault.name, again[0].ID)
				}
			case err != nil:
				b.t.Errorf("%s: it never came again", fault.name)
			case refused && took != 0, !refused && !within(took, 9*time.Second, 12*time.Second):
				b.t.Errorf("%s: it came again after %v", fault.name, took)
			}
			if err == nil {
				b.must(p.Ack(b.t.Context(), again...))
			}
			p.stop()
			if lag := b.lag(); lag != 0 {
				b.t.Errorf("%s: lag %d", fault.name, lag)
			}
		})
	}
}

// An ack whose outcome is not known may be repeated while the lease lasts.
func TestProducerRepeatsAmbiguousAck(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		p := b.produce(rheo.ProducerOptions{})
		leases := b.leased(p, 1)
		b.store.Inject(faultbackend.Times(1, faultbackend.Fail(rheo.ErrUnavailable)), faultbackend.Settle)
		if err := p.Ack(b.t.Context(), leases...); !errors.Is(err, rheo.ErrUnavailable) {
			b.t.Errorf("the first ack: %v", err)
		}
		b.must(p.Ack(b.t.Context(), leases...))
		p.stop()
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// A caller that no longer waits does not undo what it has asked for; and one that
// waits with the lease's own context gets the answer.
func TestProducerSettleContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1", "e2")
		b.store.Inject(faultbackend.Delay(2*time.Second), faultbackend.Settle)
		p := b.produce(rheo.ProducerOptions{})
		leases := b.leased(p, 2)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := p.Ack(ctx, leases[0]); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("Ack whose ctx ends: %v", err)
		}
		own := p.Context(b.t.Context(), leases[1])
		b.must(p.Ack(own, leases[1]))
		synctest.Wait()
		if own.Err() == nil {
			b.t.Error("the context was not released")
		}
		p.stop()
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// Without a run, before or after, the store itself is asked.
func TestProducerSettlesWithoutRun(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		p := b.producer(rheo.ProducerOptions{})
		lease := mustFetch(b)[0]
		if ctx := p.Context(b.t.Context(), lease); !errors.Is(context.Cause(ctx), rheo.ErrStaleLease) {
			b.t.Errorf("its context: %v", context.Cause(ctx))
		}
		p.Confirm(lease)
		b.must(p.Ack(b.t.Context(), lease))
		b.must(p.Drain(b.t.Context()))
		if lag := b.lag(); lag != 0 || p.InFlight() != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// In an ordered group one caller is served at a time, and nothing is fetched for
// the other to be given back.
func TestProducerOrderedServesOneAtATime(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, inOrder, func(b *bench) {
		p := b.produce(rheo.ProducerOptions{PollInterval: time.Hour})
		first := p.receiveLater(b.t.Context(), 2)
		second := p.receiveLater(b.t.Context(), 2)
		b.append(names("e", 4)...)
		one := (<-first).leases
		equal(b.t, "the first", ids(one), []string{"e1", "e2"})
		synctest.Wait()
		p.expectInFlight(2)
		b.must(p.Ack(b.t.Context(), one...))
		two := (<-second).leases
		equal(b.t, "the second", ids(two), []string{"e3", "e4"})
		b.must(p.Ack(b.t.Context(), two...))
		equal(b.t, "settled", b.settlements(), []string{"ack e1", "ack e2", "ack e3", "ack e4"})
		p.stop()
	})
}

// In an ordered group a caller has a partition's batch to itself, and a nack gives
// back what lies behind it.
func TestProducerOrdered(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 2, inOrder, func(b *bench) {
		b.appendTo(0, names("e", 4)...)
		p := b.produce(rheo.ProducerOptions{PollInterval: time.Hour})
		first := p.receiveLater(b.t.Context(), 4)
		second := p.receiveLater(b.t.Context(), 4)
		l := (<-first).leases
		equal(b.t, "received", ids(l), names("e", 4))
		behind := p.Context(b.t.Context(), l[2])
		results, err := p.Settle(b.t.Context(),
			rheo.Settlement{Lease: l[3], Outcome: rheo.OutcomeAck},
			rheo.Settlement{Lease: l[0], Outcome: rheo.OutcomeAck},
			rheo.Settlement{Lease: l[1], Outcome: rheo.OutcomeNack},
		)
		if err != nil || !errors.Is(results[0], rheo.ErrStaleLease) || results[1] != nil || results[2] != nil {
			b.t.Errorf("settled with the results %v, %v", results, err)
		}
		if !errors.Is(context.Cause(behind), rheo.ErrStaleLease) {
			b.t.Errorf("the context of what lies behind: %v", context.Cause(behind))
		}
		if err := p.Ack(b.t.Context(), l[2]); !errors.Is(err, rheo.ErrStaleLease) {
			b.t.Errorf("ack of what lies behind: %v", err)
		}
		again := (<-second).leases
		equal(b.t, "received", ids(again), []string{"e2", "e3", "e4"})
		b.must(p.Ack(b.t.Context(), again...))
		b.endedInOrder("in the store")
		p.stop()
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}
