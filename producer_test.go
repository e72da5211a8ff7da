package rheo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

func TestProducerOptions(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		for field, o := range map[string]rheo.ProducerOptions{
			"Stream":        {Group: "group"},
			"Group":         {Stream: "stream"},
			"MaxDemand":     {Stream: "stream", Group: "group", MaxDemand: 2*rheo.MaxBatch + 1},
			"LeaseDuration": {Stream: "stream", Group: "group", LeaseDuration: 1},
			"PollInterval":  {Stream: "stream", Group: "group", PollInterval: -1},
		} {
			if _, err := rheo.NewProducer(b.Instance, o); !errors.Is(err, rheo.ErrInvalid) || !strings.Contains(err.Error(), "ProducerOptions."+field) {
				b.t.Errorf("%s: %v", field, err)
			}
		}
		if _, err := rheo.NewProducer(nil, rheo.ProducerOptions{}); !errors.Is(err, rheo.ErrInvalid) {
			b.t.Errorf("no instance: %v", err)
		}
		p := b.producer(rheo.ProducerOptions{})
		for _, n := range []int{-1, 0, rheo.MaxBatch + 1} {
			if _, err := p.Receive(b.t.Context(), n); !errors.Is(err, rheo.ErrInvalid) {
				b.t.Errorf("Receive of %d: %v", n, err)
			}
		}
	})
}

// A fetch asks for what was asked for, as far as MaxDemand leaves room, and none
// is made that nobody asked for.
func TestProducerDemand(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 20)...)
		p := b.produce(rheo.ProducerOptions{MaxDemand: 8})
		time.Sleep(time.Minute)
		if n := b.store.Count(faultbackend.Fetch); n != 0 {
			b.t.Errorf("%d fetches before anybody asked", n)
		}
		first := p.receive(5)
		equal(b.t, "received", ids(first), names("e", 5))
		second := p.receive(5)
		equal(b.t, "received", ids(second), []string{"e6", "e7", "e8"})
		third := p.receiveLater(b.t.Context(), 5)
		time.Sleep(time.Minute)
		p.expectInFlight(8)
		b.must(p.Ack(b.t.Context(), first[:2]...))
		equal(b.t, "received", ids((<-third).leases), []string{"e9", "e10"})
		time.Sleep(time.Minute)
		var asked []int
		for _, c := range b.store.Calls(faultbackend.Fetch) {
			asked = append(asked, c.Max)
		}
		equal(b.t, "fetches", asked, []int{5, 3, 2})
		b.must(p.Release(b.t.Context(), slices.Concat(first[2:], second)...))
		b.must(p.Nack(b.t.Context(), "again", 0, b.leased(p, 1)...))
		p.expectInFlight(2)
		p.stop()
	})
}

// Several who wait are served by one fetch, in their order.
func TestProducerServesSeveral(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		p := b.produce(rheo.ProducerOptions{PollInterval: time.Hour})
		first := p.receiveLater(b.t.Context(), 3)
		second := p.receiveLater(b.t.Context(), 3)
		time.Sleep(time.Second)
		b.append(names("e", 4)...)
		one, two := <-first, <-second
		equal(b.t, "the first", ids(one.leases), []string{"e1", "e2", "e3"})
		equal(b.t, "the second", ids(two.leases), []string{"e4"})
		b.must(p.Ack(b.t.Context(), append(one.leases, two.leases...)...))
		p.stop()
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

// A fetch whose caller has gone loses nothing: what it brings goes to the next who
// asks meanwhile, or is given back with its attempt.
func TestProducerCancelledReceive(t *testing.T) {
	t.Parallel()
	for _, next := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.append(names("e", 4)...)
			b.slowFetch(2 * time.Second)
			p := b.produce(rheo.ProducerOptions{})
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
			defer cancel()
			gone := p.receiveLater(ctx, 4)
			time.Sleep(time.Second)
			if r := <-gone; !errors.Is(r.err, context.DeadlineExceeded) || r.leases != nil {
				b.t.Errorf("Receive whose ctx has ended: %v, %v", r.leases, r.err)
			}
			var want []string
			if next {
				leases := b.leased(p, 2)
				b.must(p.Ack(b.t.Context(), leases...))
				want = append(ids(leases), "e3", "e4")
			} else {
				want = names("e", 4)
			}
			time.Sleep(5 * time.Second)
			p.expectInFlight(0)
			for _, s := range b.settlements() {
				outcome, id, _ := strings.Cut(s, " ")
				if !slices.Contains(want, id) || outcome != "release" && outcome != "ack" {
					b.t.Errorf("settled %v", b.settlements())
				}
			}
			if len(b.settlements()) != 4 {
				b.t.Errorf("settled %v", b.settlements())
			}
			for _, l := range p.receive(4) {
				if l.Attempt != 1 {
					b.t.Errorf("%s is on attempt %d", l.ID, l.Attempt)
				}
			}
			p.stop()
		})
	}
}

// Receive waits for Run; when it drains, and after it, it says so.
func TestProducerReceiveAndRun(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e1")
		p := &producing{Producer: b.producer(rheo.ProducerOptions{}), t: b.t}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if _, err := p.Receive(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("before Run: %v", err)
		}
		early := p.receiveLater(b.t.Context(), 1)
		p.start()
		r := <-early
		equal(b.t, "received", ids(r.leases), []string{"e1"})
		b.must(p.Ack(b.t.Context(), r.leases...))
		p.expectClosed()
		p.start() // it runs any number of times
		b.append("e2")
		b.must(p.Ack(b.t.Context(), b.leased(p, 1)...))
		p.expectClosed()
	})
}

// expectClosed stops the producer, and fails the test unless Receive says so.
func (p *producing) expectClosed() {
	p.t.Helper()
	waiting := p.receiveLater(p.t.Context(), 1)
	p.cancel()
	if r := <-waiting; !errors.Is(r.err, rheo.ErrClosed) {
		p.t.Errorf("when it drains: %v", r.err)
	}
	p.stop()
	if _, err := p.Receive(p.t.Context(), 1); !errors.Is(err, rheo.ErrClosed) {
		p.t.Errorf("after Run: %v", err)
	}
}

// What waiting cannot mend ends Run, and is told to who receives.
func TestProducerFatalErrors(t *testing.T) {
	t.Parallel()
	for _, op := range []faultbackend.Op{faultbackend.Group, faultbackend.Fetch} {
		for _, fatal := range []error{rheo.ErrGroupNotFound, rheo.ErrClosed} {
			bubble(t, func(b *bench) {
				b.store.Inject(faultbackend.Fail(rheo.WrapError(fatal, errHandler, "")), op)
				p := b.produce(rheo.ProducerOptions{})
				if _, err := p.Receive(b.t.Context(), 1); !errors.Is(err, rheo.ErrClosed) || !errors.Is(err, errHandler) {
					b.t.Errorf("%s: Receive: %v", op, err)
				}
				<-p.ended
				if !errors.Is(p.err, fatal) {
					b.t.Errorf("%s: Run: %v", op, p.err)
				}
				var last error
				for lease, err := range p.All(b.t.Context()) {
					if last = err; lease != nil {
						b.t.Errorf("%s: All yields %s", op, lease.ID)
					}
				}
				if !errors.Is(last, fatal) {
					b.t.Errorf("%s: All ended with %v", op, last)
				}
			})
		}
	}
}

// A Group and a Producer share the identity that only one may have.
func TestProducerIdentity(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		run := b.start(rheo.GroupOptions{Handler: newBlocked(time.Hour).handle, DrainTimeout: 1})
		synctest.Wait()
		p := b.producer(rheo.ProducerOptions{})
		if err := p.Run(b.t.Context()); !errors.Is(err, rheo.ErrAlreadyStarted) {
			b.t.Errorf("beside a Group: %v", err)
		}
		run.stop()
		waiting := b.produce(rheo.ProducerOptions{})
		if err := waiting.Run(b.t.Context()); !errors.Is(err, rheo.ErrAlreadyStarted) {
			b.t.Errorf("twice: %v", err)
		}
		time.Sleep(2 * time.Second)
		b.must(waiting.Ack(b.t.Context(), b.leased(waiting, 1)...)) // the refused Run has not disturbed it
		waiting.stop()
	})
}

// A store that is away is waited for.
func TestProducerOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		back := b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable))
		p := b.produce(rheo.ProducerOptions{})
		result := p.receiveLater(b.t.Context(), 1)
		time.Sleep(10 * time.Minute)
		back()
		b.must(p.Ack(b.t.Context(), (<-result).leases...))
		p.stop()
		equal(b.t, "reported", b.outages(), []string{
			"store operation fails; going on trying: group", "store operation works again: group",
		})
	})
}

// All yields until the loop is left, and gives back what it holds beyond that.
func TestProducerAll(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 10)...)
		p := b.produce(rheo.ProducerOptions{MaxDemand: 4})
		var seen []string
		for lease, err := range p.All(b.t.Context()) {
			b.must(err)
			seen = append(seen, lease.ID)
			b.must(p.Ack(b.t.Context(), lease))
			if len(seen) == 6 {
				break
			}
		}
		synctest.Wait()
		p.expectInFlight(0)
		equal(b.t, "yielded", seen, names("e", 6))
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		var last error
		for lease, err := range p.All(ctx) {
			if last = err; err == nil {
				seen = append(seen, lease.ID)
				b.must(p.Ack(b.t.Context(), lease))
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) {
			b.t.Errorf("ended with %v", last)
		}
		for lease, err := range p.All(b.t.Context()) {
			b.must(err)
			if lease.Attempt != 1 {
				b.t.Errorf("%s is on attempt %d", lease.ID, lease.Attempt)
			}
			seen = append(seen, lease.ID)
			b.must(p.Ack(b.t.Context(), lease))
			if lease.ID == "e9" {
				p.cancel()
				synctest.Wait() // e10 is given back while the body of the loop still runs
				equal(b.t, "given back", b.settlements()[len(b.settlements())-1:], []string{"release e10"})
			}
		}
		equal(b.t, "yielded", seen, names("e", 9))
		<-p.ended
		if lag := b.lag(); p.err != nil || lag != 1 {
			b.t.Errorf("Run: %v, lag %d", p.err, lag)
		}
	})
}
