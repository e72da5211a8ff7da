package rheo_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// MaxDemand bounds what is leased, Concurrency what is handled at once.
func TestDemandAndConcurrency(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ concurrency, demand int }{{1, 1}, {1, 2}, {1, 50}, {3, 3}, {3, 10}, {10, 100}} {
		bubbleWith(t, 4, rheo.GroupConfig{}, func(b *bench) {
			for p := range 4 {
				b.appendTo(p, names("e", 50)...)
			}
			seen := newHandled()
			most := int64(0)
			run := b.start(rheo.GroupOptions{
				Concurrency: test.concurrency, MaxDemand: test.demand,
				Handler: seen.by(func(context.Context, *rheo.Delivery) error {
					time.Sleep(time.Second)
					return nil
				}),
			})
			for range 400 {
				time.Sleep(501 * time.Millisecond)
				info := b.info()
				most = max(most, info.InFlight())
			}
			run.stop()
			if b.lag() != 0 || len(seen.all()) != 200 {
				b.t.Errorf("%+v: lag %d, %d handled", test, b.lag(), len(seen.all()))
			}
			if most != int64(test.demand) || seen.mostAtOnce() != test.concurrency {
				b.t.Errorf("%+v: %d leased and %d handled at once", test, most, seen.mostAtOnce())
			}
		})
	}
}

// With MaxDemand above Concurrency, the next events are there when a handler
// ends, however slow the store is.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	for demand, want := range map[int]time.Duration{
		1:  100*time.Second + 101*2*time.Second, // each waits for a settle and a fetch
		10: 100*time.Second + 4*time.Second,     // only the first and the last do
	} {
		bubble(t, func(b *bench) {
			b.store.Inject(faultbackend.Delay(time.Second), faultbackend.Fetch, faultbackend.Settle)
			b.append(names("e", 100)...)
			start := time.Now()
			seen := newHandled()
			run := b.start(rheo.GroupOptions{Concurrency: 1, MaxDemand: demand, Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
				time.Sleep(time.Second)
				return nil
			})})
			for len(seen.all()) < 100 {
				time.Sleep(100 * time.Millisecond)
			}
			run.stop()
			if took := time.Since(start); took > want {
				b.t.Errorf("MaxDemand %d: took %v, want %v at most", demand, took, want)
			}
		})
	}
}

// No timer is on the way of an event: all are handled and acked in no time.
func TestNoTimerOnTheWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		events   int
		ordering rheo.Ordering
		options  rheo.GroupOptions
	}{
		{10_000, rheo.OrderingNone, rheo.GroupOptions{Concurrency: 1}},
		{1000, rheo.OrderingNone, rheo.GroupOptions{Concurrency: 1, MaxDemand: 1}},
		{1000, rheo.OrderingNone, rheo.GroupOptions{}},
		{1000, rheo.OrderingPartition, rheo.GroupOptions{}},
		{1000, rheo.OrderingPartition, rheo.GroupOptions{Concurrency: 1, MaxDemand: 1}},
	} {
		bubbleWith(t, 2, rheo.GroupConfig{Ordering: test.ordering}, func(b *bench) {
			b.appendTo(0, names("e", test.events/2)...)
			b.appendTo(1, names("e", test.events/2)...)
			start := time.Now()
			all := make(chan struct{})
			test.options.Handler = countTo(test.events, all)
			run := b.start(test.options)
			<-all
			run.stop()
			if took := time.Since(start); took != 0 || b.lag() != 0 {
				b.t.Errorf("%+v: took %v, lag %d", test, took, b.lag())
			}
		})
	}
}

// countTo returns a handler that closes all at the n-th event.
func countTo(n int, all chan struct{}) rheo.Handler {
	var mu sync.Mutex
	return func(context.Context, *rheo.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		n--
		if n == 0 {
			close(all)
		}
		return nil
	}
}

// A slow store makes the settle batches larger, not the wait longer.
func TestSettleBatches(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 1000)...)
		b.store.Inject(faultbackend.Delay(100*time.Millisecond), faultbackend.Settle)
		all := make(chan struct{})
		count := countTo(1000, all)
		start := time.Now()
		run := b.start(rheo.GroupOptions{
			Concurrency: 50, MaxDemand: 1000,
			Handler: func(ctx context.Context, d *rheo.Delivery) error {
				time.Sleep(10 * time.Millisecond)
				return count(ctx, d)
			},
		})
		<-all
		run.stop()
		// 1000 events, 50 at once, 10 ms each: 200 ms, which is two settles; and the
		// third takes the rest.
		calls := b.store.Calls(faultbackend.Settle)
		if took := time.Since(start); took > 510*time.Millisecond || len(calls) > 4 {
			b.t.Errorf("%d settles in %v", len(calls), took)
		}
		for at, c := range calls[1:] {
			if at < len(calls)-2 && len(c.Settlements) < 400 {
				b.t.Errorf("settle %d has %d items", at+2, len(c.Settlements))
			}
			if overlap := calls[at].At.Add(calls[at].Took).After(c.At); overlap {
				b.t.Errorf("settle %d began before the one before had ended", at+2)
			}
		}
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// More is renewed and settled at once than one call may hold.
func TestMoreThanOneCallHolds(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		const events = 2 * rheo.MaxBatch
		b.append(names("e", events/2)...)
		b.append(names("f", events/2)...)
		run := b.start(rheo.GroupOptions{
			Concurrency: 1, MaxDemand: events, LeaseDuration: 2 * time.Second,
			Handler: newBlocked(2500 * time.Millisecond).handle,
		})
		synctest.Wait()
		if n := run.InFlight(); n != events {
			b.t.Errorf("%d in flight", n)
		}
		time.Sleep(2200 * time.Millisecond)
		run.stop()
		if info := b.info(); info.Lag() != events-1 || info.InFlight() != 0 {
			b.t.Errorf("lag %d, %d leased", info.Lag(), info.InFlight())
		}
		renewed := 0
		for _, c := range b.store.Calls(faultbackend.Renew) {
			renewed += len(c.Leases)
		}
		if n := b.store.Count(faultbackend.Renew); n != 4 || renewed != 2*events {
			b.t.Errorf("%d renewals of %d leases", n, renewed)
		}
	})
}

// Two processes compete over one store; no event is handled twice.
func TestTwoRuntimesCompete(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 4, rheo.GroupConfig{}, func(b *bench) {
		const events = 400
		all := make(chan struct{})
		var mu sync.Mutex
		handled, by := make(map[string]int), make(map[string]int)
		run := func(i *rheo.Instance, name string) *running {
			return b.startOn(i, rheo.GroupOptions{
				Concurrency: 2, MaxDemand: 4, ConsumerID: name,
				Handler: func(_ context.Context, d *rheo.Delivery) error {
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					handled[d.ID]++
					by[name]++
					if len(handled) == events {
						close(all)
					}
					return nil
				},
			})
		}
		first, second := run(b.Instance, "first"), run(b.instance(), "second")
		for p := range 4 {
			b.appendTo(p, names(string(rune('a'+p)), events/4)...)
		}
		<-all
		first.stop()
		second.stop()
		for id, n := range handled {
			if n != 1 {
				b.t.Errorf("%s was handled %d times", id, n)
			}
		}
		if b.lag() != 0 || by["first"] < 50 || by["second"] < 50 {
			b.t.Errorf("lag %d, handled by %v", b.lag(), by)
		}
	})
}
