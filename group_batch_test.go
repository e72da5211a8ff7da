package rheo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

// windowed notes the windows that a batch handler is given.
type windowed struct {
	mu    sync.Mutex
	start time.Time
	seen  []string // "e1,e2 after 1s"
}

func newWindowed() *windowed { return &windowed{start: time.Now()} }

// by wraps a handler; nil acks.
func (w *windowed) by(handler rheo.BatchHandler) rheo.BatchHandler {
	return func(ctx context.Context, batch []*rheo.Delivery) []error {
		w.mu.Lock()
		w.seen = append(w.seen, fmt.Sprintf("%s after %v", strings.Join(batchIDs(batch), ","), time.Since(w.start)))
		w.mu.Unlock()
		if handler == nil {
			return nil
		}
		return handler(ctx, batch)
	}
}

func (w *windowed) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

func batchIDs(batch []*rheo.Delivery) (all []string) {
	for _, d := range batch {
		all = append(all, d.ID)
	}
	return all
}

// A window is handed over when it is full, or BatchWait after its first delivery.
func TestWindows(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 8)...)
		seen := newWindowed()
		run := b.start(rheo.GroupOptions{BatchHandler: seen.by(nil), BatchSize: 3, BatchWait: 10 * time.Second})
		time.Sleep(4 * time.Second)
		b.append("f1") // fills the window that has waited since 0 s
		time.Sleep(time.Second)
		b.append("f2") // waits from 5 s on
		time.Sleep(9 * time.Second)
		b.append("f3")
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "windows", sorted(seen.all()), []string{"e1,e2,e3 after 0s", "e4,e5,e6 after 0s", "e7,e8,f1 after 4s", "f2,f3 after 15s"})
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// While every handler is busy, a window goes on growing.
func TestWindowGrowsWhileHandlersAreBusy(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		seen := newWindowed()
		run := b.start(rheo.GroupOptions{
			Concurrency: 1, BatchSize: 100, BatchWait: time.Second,
			BatchHandler: seen.by(func(context.Context, []*rheo.Delivery) []error {
				time.Sleep(10 * time.Second)
				return nil
			}),
		})
		for _, id := range names("e", 6) {
			b.append(id)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "windows", seen.all(), []string{"e1 after 1s", "e2,e3,e4,e5,e6 after 11s"})
	})
}

// Full windows wait for no timer, and fill up to the brim of MaxDemand.
func TestNoTimerOnTheWayOfFullWindows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ concurrency, size, demand int }{{1, 1, 1}, {1, 10, 10}, {4, 10, 15}, {10, 100, 0}, {1, 1000, 1000}} {
		bubbleWith(t, 2, rheo.GroupConfig{}, func(b *bench) {
			b.appendTo(0, names("e", 1000)...)
			b.appendTo(1, names("e", 1000)...)
			start := time.Now()
			all := make(chan struct{})
			count := countTo(2000, all)
			run := b.start(rheo.GroupOptions{
				Concurrency: test.concurrency, BatchSize: test.size, MaxDemand: test.demand, BatchWait: time.Hour,
				BatchHandler: func(ctx context.Context, batch []*rheo.Delivery) []error {
					if len(batch) != test.size {
						b.t.Errorf("%+v: a window of %d", test, len(batch))
					}
					for _, d := range batch {
						_ = count(ctx, d)
					}
					return nil
				},
			})
			<-all
			run.stop()
			if took := time.Since(start); took != 0 || b.lag() != 0 {
				b.t.Errorf("%+v: took %v, lag %d", test, took, b.lag())
			}
		})
	}
}

// Each delivery of a window has its own outcome, and one store call settles all.
func TestWindowOutcomes(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 5)...)
		run := b.start(rheo.GroupOptions{
			BatchSize: 5, BatchWait: time.Hour, RetryBackoff: rheo.Backoff{Min: time.Hour, Max: time.Hour},
			BatchHandler: func(context.Context, []*rheo.Delivery) []error {
				return []error{nil, errHandler, rheo.Reject(errHandler), rheo.RetryAfter(errHandler, time.Hour), nil}
			},
		})
		time.Sleep(time.Second)
		run.stop()
		equal(b.t, "settled", b.settlements(), []string{"ack e1", "nack e2", "reject e3", "nack e4", "ack e5"})
		if n := b.store.Count(faultbackend.Settle); n != 1 {
			b.t.Errorf("%d settles", n)
		}
		equal(b.t, "dead letters", b.deadLetters(), []string{"e3: " + errHandler.Error()})
	})
}

// A handler that panics, or miscounts, has all of its window nacked.
func TestWindowOfBrokenHandler(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]rheo.BatchHandler{
		"panic":      func(context.Context, []*rheo.Delivery) []error { panic("at the handler") },
		"miscount":   func(context.Context, []*rheo.Delivery) []error { return make([]error, 2) },
		"angry text": func(context.Context, []*rheo.Delivery) []error { return []error{nil, nil, panicking{}} },
	} {
		bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 1}, func(b *bench) {
			b.append(names("e", 3)...)
			run := b.start(rheo.GroupOptions{BatchSize: 3, BatchHandler: handler})
			time.Sleep(time.Second)
			run.stop()
			equal(b.t, name, b.settlements(), []string{"nack e1", "nack e2", "nack e3"})
			if n := len(b.logs.at(slog.LevelError, "")); n != 1 {
				b.t.Errorf("%s: %d errors reported", name, n)
			}
			if dead := b.deadLetters(); len(dead) != 3 {
				b.t.Errorf("%s: dead letters %v", name, dead)
			}
		})
	}
}

// panicking is an error that cannot say what it is.
type panicking struct{}

func (panicking) Error() string { panic("in Error") }

// All of a window is renewed. A lease that is lost is flagged, and its outcome
// dropped; when all are, ctx ends.
func TestWindowLosesLeases(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.append("e1", "e2", "e3")
			lost := []string{"e2"}
			if all {
				lost = []string{"e1", "e2", "e3"}
			}
			handled := make(chan struct{})
			run := b.start(rheo.GroupOptions{
				Concurrency: 1, BatchSize: 3, MaxDemand: 3, LeaseDuration: 10 * time.Second, // no room to fetch what is taken away
				BatchHandler: func(ctx context.Context, batch []*rheo.Delivery) []error {
					if batch[0].Attempt == 1 && len(batch) == 3 && batch[0].LastReason == "" {
						defer close(handled)
						time.Sleep(62 * time.Second) // with renewals, every 5 s
						takeAway(b, lost)
						time.Sleep(5 * time.Second)
						var flagged []string
						for _, d := range batch {
							if errors.Is(d.Lost(), rheo.ErrStaleLease) {
								flagged = append(flagged, d.ID)
							}
						}
						equal(b.t, "lost", flagged, lost)
						if ended := ctx.Err() != nil; ended != all || ended && !errors.Is(context.Cause(ctx), rheo.ErrStaleLease) {
							b.t.Errorf("lost %v: ctx %v", lost, context.Cause(ctx))
						}
					}
					return nil
				},
			})
			<-handled
			synctest.Wait()
			if all {
				equal(b.t, "settled", b.settlements(), []string{"reject e1", "reject e2", "reject e3"})
			} else {
				equal(b.t, "settled", b.settlements(), []string{"reject e2", "ack e1", "ack e3"})
			}
			run.stop()
		})
	}
	if err := (&rheo.Delivery{Lease: &rheo.Lease{}}).Lost(); err != nil {
		t.Errorf("a delivery of the host's own making is lost: %v", err)
	}
}

// takeAway makes another the holder of the events, who rejects them.
func takeAway(b *bench, ids []string) {
	_, err := b.Replay(b.t.Context(), "stream", "group", rheo.ReplaySelection{IDs: ids})
	b.must(err)
	leases, err := b.Fetch(b.t.Context(), "stream", "group", rheo.FetchOptions{Max: 10})
	b.must(err)
	b.must(b.Reject(b.t.Context(), "by another", leases...))
}

// A window whose process dies before it is acked comes again as a whole.
func TestCrashRedeliversWindow(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 4)...)
		first := newWindowed()
		run := b.start(rheo.GroupOptions{
			BatchSize: 4, LeaseDuration: 10 * time.Second,
			BatchHandler: first.by(func(context.Context, []*rheo.Delivery) []error {
				b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable)) // from here on the process is as good as dead
				return nil
			}),
		})
		synctest.Wait()
		another, err := rheo.New(b.truth, nil)
		b.must(err)
		second := newWindowed()
		attempts := make(chan int, 4)
		survivor := b.startOn(another, rheo.GroupOptions{BatchSize: 4, BatchHandler: second.by(func(_ context.Context, batch []*rheo.Delivery) []error {
			for _, d := range batch {
				attempts <- d.Attempt
			}
			return nil
		})})
		time.Sleep(time.Minute)
		survivor.stop()
		run.stop()
		if all := second.all(); len(first.all()) != 1 || len(all) != 1 || !strings.HasPrefix(all[0], "e1,e2,e3,e4 after") {
			b.t.Errorf("windows %v, then %v", first.all(), all)
		}
		for range len(attempts) {
			if attempt := <-attempts; attempt != 2 {
				b.t.Errorf("attempt %d", attempt)
			}
		}
		info, err := another.GroupInfo(b.t.Context(), "stream", "group")
		b.must(err)
		if info.Lag() != 0 {
			b.t.Errorf("lag %d", info.Lag())
		}
	})
}

// What waits in a window is given back when the group drains; what is handled is
// waited for.
func TestDrainOfWindows(t *testing.T) {
	t.Parallel()
	for name, drain := range drainWays {
		bubble(t, func(b *bench) {
			b.append(names("e", 5)...)
			seen := newWindowed()
			run := b.start(rheo.GroupOptions{
				Concurrency: 1, BatchSize: 3, BatchWait: time.Hour,
				BatchHandler: seen.by(func(context.Context, []*rheo.Delivery) []error {
					time.Sleep(10 * time.Second)
					return nil
				}),
			})
			time.Sleep(time.Second)
			drain(run)
			synctest.Wait()
			equal(b.t, name, sorted(b.settlements()), []string{"release e4", "release e5"})
			if run.hasEnded() {
				b.t.Errorf("%s: Run has not waited for the handler", name)
			}
			if err := run.wait(); err != nil || b.lag() != 2 || run.InFlight() != 0 {
				b.t.Errorf("%s: %v, lag %d", name, err, b.lag())
			}
			equal(b.t, name, seen.all(), []string{"e1,e2,e3 after 0s"})
		})
	}
}

// In an ordered group a window holds a partition's events in order, and a nack
// brings back what lies behind it, though it was acked.
func TestOrderedWindows(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 2, inOrder, func(b *bench) {
		b.appendTo(0, names("e", 5)...)
		b.appendTo(1, names("f", 2)...)
		seen := newWindowed()
		failed := false
		run := b.start(rheo.GroupOptions{
			BatchSize: 10, BatchWait: time.Second, Concurrency: 1,
			BatchHandler: seen.by(func(_ context.Context, batch []*rheo.Delivery) []error {
				results := make([]error, len(batch))
				if at := slices.Index(batchIDs(batch), "e3"); at >= 0 && !failed {
					failed = true
					results[at] = rheo.RetryAfter(errHandler, 0)
				}
				return results
			}),
		})
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "windows", seen.all(), []string{"e1,e2,e3,e4,e5,f1,f2 after 1s", "e3,e4,e5 after 2s"})
		equal(b.t, "settled", b.settlements()[:7], []string{"ack e1", "ack e2", "nack e3", "release e4", "release e5", "ack f1", "ack f2"})
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// A partition's batch is never cut over two windows: one that does not fit waits for
// the next window, however many there are.
func TestOrderedWindowsAreNotCut(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 3, inOrder, func(b *bench) {
		b.appendTo(0, names("e", 6)...)
		seen := newWindowed()
		run := b.start(rheo.GroupOptions{
			Concurrency: 1, BatchSize: 4, BatchWait: time.Second,
			BatchHandler: seen.by(func(context.Context, []*rheo.Delivery) []error {
				time.Sleep(10 * time.Second)
				return nil
			}),
		})
		time.Sleep(500 * time.Millisecond)
		b.appendTo(1, names("f", 3)...)
		time.Sleep(500 * time.Millisecond)
		b.appendTo(2, names("g", 3)...)
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "windows", seen.all(), []string{
			"e1,e2,e3,e4 after 0s", "f1,f2,f3 after 10s", "g1,g2,g3 after 20s", "e5,e6 after 30s",
		})
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// TestOrderOfWindowsUnderFailures is TestOrderUnderFailures for batches.
func TestOrderOfWindowsUnderFailures(t *testing.T) {
	t.Parallel()
	for range 10 {
		bubbleWith(t, 3, inOrder, func(b *bench) {
			for p := range 3 {
				b.appendTo(p, names(fmt.Sprint("p", p, "-"), 25)...)
			}
			classes := []error{rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrInvalid}
			b.store.Inject(func(ctx context.Context, c *faultbackend.Call, next faultbackend.Next) error {
				if n := rand.IntN(10); n < len(classes) {
					return faultbackend.Fail(classes[n])(ctx, c, next)
				}
				return faultbackend.Delay(time.Duration(rand.IntN(200))*time.Millisecond)(ctx, c, next)
			}, faultbackend.Settle)
			o := order{t: b.t, done: make(map[int]int64), running: make(map[int]bool)}
			run := b.start(rheo.GroupOptions{
				Concurrency: 3, BatchSize: 1 + rand.IntN(10), BatchWait: 50 * time.Millisecond,
				LeaseDuration: 2 * time.Second, PollInterval: 100 * time.Millisecond,
				RetryBackoff: rheo.Backoff{Min: 10 * time.Millisecond, Max: time.Second},
				BatchHandler: o.handleWindow,
			})
			for waited := 0; b.lag() > 0; waited++ {
				time.Sleep(time.Second)
				if waited > 1000 {
					b.t.Fatalf("lag %d", b.lag())
				}
			}
			run.stop()
			b.endedInOrder("in the store")
		})
	}
}

// handleWindow handles what comes of each partition until one fails, as a careful
// handler of an ordered group does.
func (o *order) handleWindow(ctx context.Context, batch []*rheo.Delivery) []error {
	results := make([]error, len(batch))
	failed := make(map[int]bool)
	for at, d := range batch {
		results[at] = rheo.Release(nil)
		if !failed[d.Partition] {
			results[at] = o.handleCalmly(ctx, d)
			failed[d.Partition] = results[at] != nil
		}
	}
	return results
}

func (o *order) handleCalmly(ctx context.Context, d *rheo.Delivery) (err error) {
	defer func() {
		if recover() != nil {
			err = errHandler
		}
	}()
	return o.handle(ctx, d)
}
