package rheo_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// Drain waits for what was received; a second one is refused.
func TestProducerDrain(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1", "e2")
		p := b.produce(rheo.ProducerOptions{})
		leases := b.leased(p, 2)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := p.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("Drain whose ctx ends: %v", err)
		}
		if err := p.Drain(b.t.Context()); !errors.Is(err, rheo.ErrAlreadyDraining) {
			b.t.Errorf("a second Drain: %v", err)
		}
		if _, err := p.Receive(b.t.Context(), 1); !errors.Is(err, rheo.ErrClosed) {
			b.t.Errorf("Receive: %v", err)
		}
		b.must(p.Ack(b.t.Context(), leases[0]))
		if p.hasEnded() {
			b.t.Error("Run did not wait for the other lease")
		}
		b.must(p.Nack(b.t.Context(), "", 0, leases[1]))
		if !p.hasEnded() || p.err != nil {
			b.t.Errorf("Run has not returned nil: %v", p.err)
		}
	})
}

// DrainTimeout ends the contexts; who settles then still can, and what nobody
// settles is left to expire. All of that also while a fetch hangs.
func TestProducerDrainTimeout(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.append("e1", "e2")
			p := b.produce(rheo.ProducerOptions{
				DrainTimeout: 3 * time.Second, SettleTimeout: 10 * time.Second, LeaseDuration: 20 * time.Second,
			})
			leases := b.leased(p, 2)
			if hangs {
				b.store.Inject(faultbackend.Hold(nil), faultbackend.Fetch)
				p.receiveLater(b.t.Context(), 1)
			}
			start := time.Now()
			p.cancel()
			handling := p.Context(b.t.Context(), leases[0])
			<-handling.Done()
			if took := time.Since(start); took != 3*time.Second || !errors.Is(context.Cause(handling), rheo.ErrClosed) {
				b.t.Errorf("the context ended after %v: %v", took, context.Cause(handling))
			}
			if late := p.Context(b.t.Context(), leases[1]); !errors.Is(context.Cause(late), rheo.ErrClosed) {
				b.t.Errorf("a context asked for later: %v", context.Cause(late))
			}
			b.must(p.Nack(b.t.Context(), "no time", 0, leases[0]))
			p.stop()
			if took := time.Since(start); took != 13*time.Second {
				b.t.Errorf("Run returned after %v", took)
			}
			if n := b.logs.at(slog.LevelWarn, "leases"); !slices.Contains(n, "leases not settled when the drain was over; they expire: 1") {
				b.t.Errorf("warnings: %v", n)
			}
			equal(b.t, "settled", b.settlements(), []string{"nack e1"})
			b.must(p.Ack(b.t.Context(), leases[1])) // late, and in time
		})
	}
}

// What comes of a fetch that was under way when the drain began is given back.
func TestProducerDrainDuringFetch(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1", "e2")
		b.slowFetch(2 * time.Second)
		p := b.produce(rheo.ProducerOptions{})
		result := p.receiveLater(b.t.Context(), 2)
		p.stop()
		if r := <-result; !errors.Is(r.err, rheo.ErrClosed) {
			b.t.Errorf("Receive: %v, %v", r.leases, r.err)
		}
		equal(b.t, "settled", b.settlements(), []string{"release e1", "release e2"})
	})
}

// TestProducerStartStop runs producers over a flaky store, with consumers that
// settle in every way or forget to, and then lets one finish: nothing may be lost,
// stuck or left in flight.
func TestProducerStartStop(t *testing.T) {
	t.Parallel()
	for _, ordering := range []rheo.Ordering{rheo.OrderingNone, rheo.OrderingPartition} {
		for range 10 {
			bubbleWith(t, 3, rheo.GroupConfig{MaxAttempts: 1000, Ordering: ordering}, (*bench).produceAndStop)
		}
	}
}

func (b *bench) produceAndStop() {
	for partition := range 3 {
		b.appendTo(partition, names("e", 30)...)
	}
	classes := []error{rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrStaleLease}
	flaky := b.store.Inject(func(ctx context.Context, c *faultbackend.Call, next faultbackend.Next) error {
		switch n := rand.IntN(12); n {
		case 0, 1, 2, 3:
			return faultbackend.Delay(time.Duration(rand.IntN(300))*time.Millisecond)(ctx, c, next)
		case 4:
			return faultbackend.Fail(classes[rand.IntN(4)])(ctx, c, next)
		}
		return next(ctx, c)
	}, faultbackend.Fetch, faultbackend.Renew, faultbackend.Settle)
	p := &producing{Producer: b.producer(rheo.ProducerOptions{
		MaxDemand: 10, LeaseDuration: time.Second, PollInterval: 100 * time.Millisecond,
		DrainTimeout: 500 * time.Millisecond, SettleTimeout: 500 * time.Millisecond,
	}), t: b.t}
	for range 6 {
		p.start()
		var consumers sync.WaitGroup
		for range 3 {
			consumers.Go(func() { p.consumeMoodily() })
		}
		b.pass(time.Duration(rand.IntN(2000)) * time.Millisecond)
		if n := p.InFlight(); n > 10 {
			b.t.Errorf("%d in flight", n)
		}
		p.stop()
		consumers.Wait()
		p.expectInFlight(0)
	}
	flaky()
	p.start()
	for b.lag() > 0 {
		b.must(p.Ack(b.t.Context(), p.receive(100)...))
	}
	p.stop()
	if info := b.info(); info.InFlight() != 0 || info.DeadLetters != 0 {
		b.t.Errorf("at the end: %+v", info)
	}
}

// consumeMoodily receives until the producer is closed.
func (p *producing) consumeMoodily() {
	for {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Duration(1+rand.IntN(500))*time.Millisecond)
		leases, err := p.Receive(ctx, 1+rand.IntN(5))
		cancel()
		switch {
		case errors.Is(err, rheo.ErrClosed):
			return
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			p.t.Error(err)
			return
		}
		for _, lease := range leases {
			p.finishMoodily(lease)
		}
	}
}

// finishMoodily takes its time and settles in any way, or not at all.
func (p *producing) finishMoodily(lease *rheo.Lease) {
	handling := p.Context(p.t.Context(), lease)
	select {
	case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
	case <-handling.Done():
	}
	outcomes := []error{nil, nil, nil, rheo.Release(nil), rheo.RetryAfter(errHandler, 0), handling.Err()}
	if n := rand.IntN(len(outcomes) + 1); n < len(outcomes) {
		_ = p.Finish(handling, lease, outcomes[n])
	}
}
