package rheo_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

func TestOneRuntimePerIdentity(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.must(b.CreateGroup(b.t.Context(), "stream", "another", rheo.GroupConfig{}))
		options := rheo.GroupOptions{Handler: newHandled().by(nil)}
		run := b.start(options)
		synctest.Wait()
		if err := run.Run(b.t.Context()); !errors.Is(err, rheo.ErrAlreadyStarted) {
			b.t.Errorf("Run of the same twice: %v", err)
		}
		if err := b.start(options).wait(); !errors.Is(err, rheo.ErrAlreadyStarted) {
			b.t.Errorf("Run of two with one identity: %v", err)
		}
		options.Stream, options.Group = "stream", "another"
		another, err := rheo.NewGroup(b.Instance, options)
		b.must(err)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := another.Run(ctx); err != nil {
			b.t.Errorf("another group at the same time: %v", err)
		}
		b.startOn(b.instance(), options).stop() // another instance: as if another process
		if run.hasEnded() {
			b.t.Error("the first has ended, too")
		}
		run.stop()
		b.start(options).stop() // the identity is free again
	})
}

// A group runs any number of times, one after the other.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		seen := newHandled()
		group, err := rheo.NewGroup(b.Instance, rheo.GroupOptions{Stream: "stream", Group: "group", Handler: seen.by(nil)})
		b.must(err)
		b.must(group.Drain(b.t.Context())) // does not concern a later run
		for _, id := range []string{"e1", "e2", "e3"} {
			b.append(id)
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
			if err := group.Serve(ctx); err != nil {
				b.t.Error(err)
			}
			cancel()
		}
		equal(b.t, "handled", seen.ids(), []string{"e1/1", "e2/1", "e3/1"})
	})
}

// What waiting cannot mend ends Run, after a drain.
func TestFatalErrors(t *testing.T) {
	t.Parallel()
	for _, fatal := range []error{
		rheo.ErrStreamNotFound, rheo.ErrGroupNotFound, rheo.ErrInvalid, rheo.ErrClosed, rheo.ErrUnsupported,
	} {
		for _, op := range []faultbackend.Op{faultbackend.Group, faultbackend.Fetch} {
			bubble(t, func(b *bench) {
				b.append("e")
				done := false
				run := b.start(rheo.GroupOptions{Handler: func(context.Context, *rheo.Delivery) error {
					time.Sleep(5 * time.Second)
					done = true
					return nil
				}})
				if op == faultbackend.Fetch {
					synctest.Wait()
					time.Sleep(time.Millisecond)
				}
				b.store.Inject(faultbackend.Fail(rheo.WrapError(fatal, errors.New("driver"), "detail")), op)
				if err := run.wait(); !errors.Is(err, fatal) {
					b.t.Errorf("%v from %s: Run returned %v", fatal, op, err)
				}
				if started := op == faultbackend.Fetch; done != started || started && b.lag() != 0 {
					b.t.Errorf("%v from %s: handled %v", fatal, op, done)
				}
			})
		}
	}
}

func TestRunOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 2, rheo.GroupConfig{Partitions: []int{0}}, func(b *bench) {
		run := func(stream, group string, partitions ...int) error {
			g, err := rheo.NewGroup(b.Instance, rheo.GroupOptions{
				Stream: stream, Group: group, Partitions: partitions, Handler: newHandled().by(nil),
			})
			b.must(err)
			return g.Run(b.t.Context())
		}
		if err := run("nowhere", "group"); !errors.Is(err, rheo.ErrStreamNotFound) {
			b.t.Errorf("no stream: %v", err)
		}
		if err := run("stream", "nobody"); !errors.Is(err, rheo.ErrGroupNotFound) {
			b.t.Errorf("no group: %v", err)
		}
		for _, partition := range []int{-1, 1, 2} {
			if err := run("stream", "group", partition); !errors.Is(err, rheo.ErrInvalid) {
				b.t.Errorf("partition %d: %v", partition, err)
			}
		}
	})
}

// An instance that is closed ends its groups; what runs is not settled any more.
func TestClosedInstance(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		run := b.start(rheo.GroupOptions{Handler: newBlocked(5 * time.Second).handle})
		synctest.Wait()
		b.must(b.Close())
		if err := run.wait(); !errors.Is(err, rheo.ErrClosed) {
			b.t.Errorf("Run: %v", err)
		}
		if run.InFlight() != 0 || len(b.settlements()) != 0 {
			b.t.Errorf("%d in flight, settled %v", run.InFlight(), b.settlements())
		}
	})
}

// A renewal that finds the instance closed does not keep the next fetch from
// finding it closed, too.
func TestClosedInstanceIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		work := newBlocked(time.Hour)
		run := b.start(rheo.GroupOptions{LeaseDuration: time.Second, DrainTimeout: 10 * time.Second, Handler: work.handle})
		time.Sleep(400 * time.Millisecond)
		b.must(b.Close())
		start := time.Now()
		if err := run.wait(); !errors.Is(err, rheo.ErrClosed) || time.Since(start) > 11*time.Second {
			b.t.Errorf("Run: %v after %v", err, time.Since(start))
		}
	})
}

// Run returns only when all that it started has. Not parallel: it looks at all
// goroutines of the process, in real time.
func TestNoGoroutineLeft(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	for _, ordering := range []rheo.Ordering{rheo.OrderingNone, rheo.OrderingPartition} {
		b := newBench(t, 4, rheo.GroupConfig{Ordering: ordering})
		for p := range 4 {
			b.appendTo(p, names("e", 25)...)
		}
		all := make(chan struct{})
		run := b.start(rheo.GroupOptions{Handler: countTo(100, all)})
		<-all
		run.stop()
		goleak.VerifyNone(t, ignore)
	}
}

// TestStartStop runs groups that are told to stop, or fail, at random moments, and
// then lets one finish: nothing may be lost, stuck or left in flight.
func TestStartStop(t *testing.T) {
	t.Parallel()
	for range 25 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		config := rheo.GroupConfig{MaxAttempts: 1000, Ordering: []rheo.Ordering{rheo.OrderingNone, rheo.OrderingPartition}[random.IntN(2)]}
		bubbleWith(t, 3, config, func(b *bench) { b.startAndStop(seed, random) })
	}
}

func (b *bench) startAndStop(seed uint64, random *rand.Rand) {
	for p := range 3 {
		b.appendTo(p, names("e", 30)...)
	}
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	classes := []error{rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrStaleLease}
	flaky := b.store.Inject(func(ctx context.Context, c *faultbackend.Call, next faultbackend.Next) error {
		switch n := rand.IntN(12); n {
		case 0, 1, 2, 3:
			return faultbackend.Delay(time.Duration(rand.IntN(300))*time.Millisecond)(ctx, c, next)
		case 4:
			return faultbackend.Fail(classes[rand.IntN(4)])(ctx, c, next)
		case 5:
			return faultbackend.LoseReply(rheo.ErrAmbiguous)(ctx, c, next)
		}
		return next(ctx, c)
	}, faultbackend.Fetch, faultbackend.Renew, faultbackend.Settle)
	for range 8 {
		options := rheo.GroupOptions{
			Concurrency: 1 + random.IntN(4), MaxDemand: 4 + random.IntN(30),
			LeaseDuration: time.Second, PollInterval: 100 * time.Millisecond,
			DrainTimeout: 1 + upTo(500*time.Millisecond),
			RetryBackoff: rheo.Backoff{Min: 10 * time.Millisecond, Max: time.Second}, // no wait outlasts the test
			Handler:      moody,
		}
		run, another := b.start(options), b.startOn(b.instance(), options)
		time.Sleep(upTo(2 * time.Second))
		run.cancel()
		if random.IntN(2) == 0 {
			_ = another.Drain(b.t.Context())
		}
		run.stop()
		another.stop()
		if n := run.InFlight() + another.InFlight(); n != 0 {
			b.t.Errorf("seed %d: %d in flight after Run", seed, n)
		}
	}
	flaky()
	run := b.start(rheo.GroupOptions{Handler: newHandled().by(nil)})
	time.Sleep(time.Minute)
	run.stop()
	if info := b.info(); info.Lag() != 0 || info.InFlight() != 0 || info.DeadLetters != 0 {
		b.t.Errorf("seed %d: at the end: %+v", seed, info)
	}
}

// moody takes its time and asks for each outcome but a reject now and then.
func moody(ctx context.Context, _ *rheo.Delivery) error {
	select {
	case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	switch rand.IntN(8) {
	case 0:
		return rheo.RetryAfter(errHandler, time.Duration(rand.IntN(500))*time.Millisecond)
	case 1:
		return rheo.Release(nil)
	case 2:
		panic("moody")
	}
	return nil
}
