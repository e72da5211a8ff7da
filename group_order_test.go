package rheo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
)

var inOrder = rheo.GroupConfig{Ordering: rheo.OrderingPartition, MaxAttempts: 1000}

// An event that fails holds its partition; the others go on.
func TestFailureHoldsItsPartition(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{
		"nack":    rheo.RetryAfter(errHandler, 10*time.Second),
		"release": rheo.Release(errHandler),
		"reject":  rheo.Reject(errHandler),
	} {
		bubbleWith(t, 2, inOrder, func(b *bench) {
			b.appendTo(0, names("e", 4)...)
			b.appendTo(1, names("f", 4)...)
			seen := newHandled()
			var failed atomic.Bool
			run := b.start(rheo.GroupOptions{PollInterval: time.Hour, Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
				time.Sleep(time.Second)
				if d.ID == "e2" && !failed.Swap(true) {
					return first
				}
				return nil
			})})
			time.Sleep(time.Minute)
			run.stop()
			of := func(prefix string) (ids []string) {
				for _, id := range seen.ids() {
					if strings.HasPrefix(id, prefix) {
						ids = append(ids, id)
					}
				}
				return ids
			}
			want := map[string][]string{
				"nack":    {"e1/1", "e2/1", "e2/2", "e3/1", "e4/1"},
				"release": {"e1/1", "e2/1", "e2/1", "e3/1", "e4/1"},
				"reject":  {"e1/1", "e2/1", "e3/1", "e4/1"},
			}
			equal(b.t, name, of("e"), want[name])
			equal(b.t, name, of("f"), []string{"f1/1", "f2/1", "f3/1", "f4/1"})
			for _, s := range seen.all() {
				if s.id == "f4" && s.at != 3*time.Second {
					b.t.Errorf("%s: the other partition was at f4 after %v", name, s.at)
				}
				if wait := s.at - time.Second; s.id == "e3" && name == "nack" && !within(wait, 12*time.Second, 12*time.Second+2*time.Millisecond) {
					b.t.Errorf("e3 was handled after %v", s.at)
				}
			}
			if lag := b.lag(); lag != 0 {
				b.t.Errorf("%s: lag %d", name, lag)
			}
		})
	}
}

// What is appended while a batch of its partition is in flight follows when that
// has ended, without a hint or a poll.
func TestNextBatchFollowsAtOnce(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, inOrder, func(b *bench) {
		b.append("e1", "e2")
		seen := newHandled()
		run := b.start(rheo.GroupOptions{PollInterval: time.Hour, Handler: seen.by(newBlocked(time.Second).handle)})
		time.Sleep(500 * time.Millisecond)
		b.append("e3")
		time.Sleep(time.Minute)
		run.stop()
		if all := seen.all(); len(all) != 3 || all[2].at != 2*time.Second {
			b.t.Errorf("handled %v", all)
		}
	})
}

// What was handled before a failure stands, though its ack had not been sent yet.
func TestAcksBeforeAFailureStand(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, inOrder, func(b *bench) {
		b.store.Inject(faultbackend.DelayReply(5*time.Second), faultbackend.Settle)
		b.append(names("e", 6)...)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
			time.Sleep(time.Second)
			if d.ID == "e4" && d.Attempt == 1 {
				return rheo.RetryAfter(errHandler, 0)
			}
			return nil
		})})
		time.Sleep(time.Minute)
		run.stop()
		equal(b.t, "handled", seen.ids(), []string{"e1/1", "e2/1", "e3/1", "e4/1", "e4/2", "e5/1", "e6/1"})
	})
}

// Where settling an event fails, nothing behind it ends before it does.
func TestSettleFailureKeepsOrder(t *testing.T) {
	t.Parallel()
	for _, fault := range storeFaults() {
		bubbleWith(t, 1, inOrder, func(b *bench) {
			// The first settle, of e1 alone, takes until all others wait for the second.
			b.store.Inject(faultbackend.Times(1, faultbackend.Delay(10*time.Second)), faultbackend.Settle)
			b.store.Inject(fault.once(), faultbackend.Settle)
			b.append(names("e", 4)...)
			seen := newHandled()
			run := b.start(rheo.GroupOptions{
				SettleTimeout: time.Minute, LeaseDuration: 20 * time.Second,
				Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
					time.Sleep(time.Second)
					if d.ID == "e3" {
						return rheo.Reject(errHandler)
					}
					return nil
				}),
			})
			time.Sleep(5 * time.Minute)
			run.stop()
			b.endedInOrder(fault.name)
			if b.lag() != 0 || len(b.deadLetters()) != 1 {
				b.t.Errorf("%s: lag %d, dead letters %v", fault.name, b.lag(), b.deadLetters())
			}
			first := "e1/2" // an event that failed is handled again, and so is all behind it
			if fault.applied {
				first = "e2/1"
			}
			if again := seen.ids()[4:]; again[0] != first || len(again) != len(seen.ids())-4 {
				b.t.Errorf("%s: handled %v", fault.name, seen.ids())
			}
		})
	}
}

// endedInOrder fails the test if the store took an ack or reject of an event of a
// partition before one of each event before it.
func (b *bench) endedInOrder(name string) {
	b.t.Helper()
	ended := make(map[int]int64)
	for _, c := range b.truth.Calls(faultbackend.Settle) {
		for at, s := range c.Settlements {
			ends := s.Outcome == rheo.OutcomeAck || s.Outcome == rheo.OutcomeReject
			if !ends || c.Err != nil || c.Items[at] != nil {
				continue
			}
			if p := s.Lease.Partition; s.Lease.Sequence > ended[p]+1 {
				b.t.Errorf("%s: partition %d: sequence %d ended after %d", name, p, s.Lease.Sequence, ended[p])
			} else {
				ended[p] = max(ended[p], s.Lease.Sequence)
			}
		}
	}
}

// TestOrderUnderFailures: whatever handlers and the store do, an event is handled
// only when each before it in its partition has been handled with success, and no
// two of a partition at once.
func TestOrderUnderFailures(t *testing.T) {
	t.Parallel()
	for range 10 {
		bubbleWith(t, 3, inOrder, func(b *bench) {
			const events = 25
			for p := range 3 {
				b.appendTo(p, names(fmt.Sprint("p", p, "-"), events)...)
			}
			classes := []error{rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrInvalid}
			b.store.Inject(func(ctx context.Context, c *faultbackend.Call, next faultbackend.Next) error {
				switch n := rand.IntN(10); n {
				case 0, 1, 2:
					return faultbackend.Delay(time.Duration(rand.IntN(200))*time.Millisecond)(ctx, c, next)
				case 3:
					return faultbackend.Fail(classes[rand.IntN(4)])(ctx, c, next)
				case 4:
					return faultbackend.LoseReply(rheo.ErrAmbiguous)(ctx, c, next)
				}
				return next(ctx, c)
			}, faultbackend.Settle)
			o := order{t: b.t, done: make(map[int]int64), running: make(map[int]bool)}
			options := rheo.GroupOptions{
				Concurrency: 3, MaxDemand: 30, LeaseDuration: 2 * time.Second, PollInterval: 100 * time.Millisecond,
				RetryBackoff: rheo.Backoff{Min: 10 * time.Millisecond, Max: time.Second},
				Handler:      o.handle,
			}
			run := b.start(options)
			another := b.startOn(b.instance(), options)
			for waited := 0; b.lag() > 0; waited++ {
				time.Sleep(time.Second)
				if waited > 1000 {
					b.t.Fatalf("lag %d", b.lag())
				}
			}
			run.stop()
			another.stop()
			b.endedInOrder("in the store")
		})
	}
}

// order is a handler that checks the order in which it is called.
type order struct {
	t       *testing.T
	mu      sync.Mutex
	done    map[int]int64 // the highest sequence handled with success, by partition
	running map[int]bool
}

func (o *order) handle(ctx context.Context, d *rheo.Delivery) error {
	o.mu.Lock()
	if d.Sequence > o.done[d.Partition]+1 || o.running[d.Partition] {
		o.t.Errorf("partition %d: sequence %d after %d, while another runs: %v",
			d.Partition, d.Sequence, o.done[d.Partition], o.running[d.Partition])
	}
	o.running[d.Partition] = true
	o.mu.Unlock()
	reject := rand.IntN(10) == 0
	ends := false
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.running[d.Partition] = false
		if ends {
			o.done[d.Partition] = max(o.done[d.Partition], d.Sequence)
		}
	}()
	if err := moody(ctx, d); err != nil {
		return err
	}
	ends = true
	if reject {
		return rheo.Reject(errHandler)
	}
	return nil
}

// A replay of an ordered group fences all of what was in flight in the partition,
// also what it does not hand out again at once.
func TestReplayOfOrderedGroup(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, inOrder, func(b *bench) {
		b.append(names("e", 9)...)
		work := newBlocked(time.Hour)
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			Concurrency: 9, MaxDemand: 9, PollInterval: time.Hour, // while e7 to e9 are in flight, room for e1 to e6
			Handler: seen.by(func(ctx context.Context, d *rheo.Delivery) error {
				switch before := len(seen.all()) <= 7; {
				case before && d.ID == "e7":
					return work.handle(ctx, d)
				case !before && d.ID == "e1":
					time.Sleep(time.Second)
				}
				return nil
			}),
		})
		synctest.Wait()
		_, err := b.Replay(b.t.Context(), "stream", "group", rheo.ReplaySelection{FromSequence: 1})
		b.must(err)
		if n := work.ended(b.t, rheo.ErrStaleLease); n != 1 {
			b.t.Error("the handler of e7 has not ended")
		}
		time.Sleep(2 * time.Second)
		run.stop()
		equal(b.t, "handled", seen.ids(), strings.Fields("e1/1 e2/1 e3/1 e4/1 e5/1 e6/1 e7/1 e1/1 e2/1 e3/1 e4/1 e5/1 e6/1 e7/1 e8/1 e9/1"))
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}
