package rheo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

var errHandler = errors.New("the handler's own")

func TestOutcomes(t *testing.T) {
	t.Parallel()
	const longPoll = time.Hour // whatever comes back in time did not wait for a poll
	tests := []struct {
		name      string
		first     func() error // what the handler does with the first attempt; the second acks
		settled   []string
		again     [2]time.Duration // when it is handled again, at least and at most; none if the last is 0
		attempt   int
		dead      []string
		lastError string
	}{
		{
			name: "ack", first: func() error { return nil },
			settled: []string{"ack e"},
		}, {
			name: "error", first: func() error { return errHandler },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{750 * time.Millisecond, 1002 * time.Millisecond},
			attempt: 2, lastError: "the handler's own",
		}, {
			name: "reject", first: func() error { return rheo.Reject(errHandler) },
			settled: []string{"reject e"}, dead: []string{"e: the handler's own"},
		}, {
			name: "wrapped reject", first: func() error { return fmt.Errorf("line 7: %w", rheo.Reject(errHandler)) },
			settled: []string{"reject e"}, dead: []string{"e: line 7: the handler's own"},
		}, {
			name: "reject without a reason", first: func() error { return rheo.Reject(nil) },
			settled: []string{"reject e"}, dead: []string{"e: reject"},
		}, {
			name: "retry after", first: func() error { return rheo.RetryAfter(errHandler, 1234*time.Millisecond) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{1234 * time.Millisecond, 1236 * time.Millisecond},
			attempt: 2, lastError: "the handler's own",
		}, {
			name: "wrapped retry after",
			first: func() error {
				return fmt.Errorf("%w", errors.Join(errHandler, rheo.RetryAfter(nil, 50*time.Millisecond)))
			},
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{50 * time.Millisecond, 52 * time.Millisecond},
			attempt: 2, lastError: "the handler's own\nnack",
		}, {
			name: "retry at once", first: func() error { return rheo.RetryAfter(errHandler, 0) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{0, 1}, attempt: 2, lastError: "the handler's own",
		}, {
			name: "retry before now", first: func() error { return rheo.RetryAfter(errHandler, -time.Hour) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{0, 1}, attempt: 2, lastError: "the handler's own",
		}, {
			name: "release", first: func() error { return rheo.Release(errHandler) },
			settled: []string{"release e", "ack e"}, again: [2]time.Duration{0, 1}, attempt: 1,
		}, {
			name: "wrapped release", first: func() error { return fmt.Errorf("not now: %w", rheo.Release(nil)) },
			settled: []string{"release e", "ack e"}, again: [2]time.Duration{0, 1}, attempt: 1,
		}, {
			name: "panic", first: func() error { panic("went wrong") },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{750 * time.Millisecond, 1002 * time.Millisecond},
			attempt: 2, lastError: "handler panicked: went wrong",
		}, {
			name: "panic with an error", first: func() error { panic(rheo.Reject(errHandler)) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{750 * time.Millisecond, 1002 * time.Millisecond},
			attempt: 2, lastError: "handler panicked: the handler's own",
		}, {
			name: "error that is a nil pointer", first: func() error { return (*fragileError)(nil) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{750 * time.Millisecond, 1002 * time.Millisecond},
			attempt: 2, lastError: "handler panicked: runtime error: invalid memory address or nil pointer dereference",
		}, {
			name: "rejected nil pointer", first: func() error { return rheo.Reject((*fragileError)(nil)) },
			settled: []string{"nack e", "ack e"}, again: [2]time.Duration{750 * time.Millisecond, 1002 * time.Millisecond},
			attempt: 2, lastError: "handler panicked: runtime error: invalid memory address or nil pointer dereference",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *bench) {
				b.append("e")
				seen := newHandled()
				var lastReason string
				run := b.start(rheo.GroupOptions{PollInterval: longPoll, Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
					if len(seen.all()) > 1 {
						lastReason = d.LastReason
						return nil
					}
					return test.first()
				})})
				b.pass(time.Minute)
				run.stop()

				equal(b.t, "settled", b.settlements(), test.settled)
				equal(b.t, "dead letters", b.deadLetters(), test.dead)
				if lag := b.lag(); lag != 0 {
					b.t.Errorf("lag %d", lag)
				}
				all := seen.all()
				switch again := test.again[1] > 0; {
				case again != (len(all) == 2) || len(all) > 2:
					b.t.Fatalf("handled %v", all)
				case again && (all[1].attempt != test.attempt || !within(all[1].at, test.again[0], test.again[1])):
					b.t.Errorf("handled %v, want attempt %d after %v", all, test.attempt, test.again)
				}
				if lastReason != test.lastError {
					b.t.Errorf("last reason %q, want %q", lastReason, test.lastError)
				}
			})
		})
	}
}

func TestOutcomeErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	for _, err := range []error{rheo.Reject(errHandler), rheo.RetryAfter(errHandler, 1), rheo.Release(errHandler)} {
		if !errors.Is(err, errHandler) || err.Error() != errHandler.Error() {
			t.Errorf("%v", err)
		}
	}
	if got := rheo.Release(nil).Error(); got != "release" {
		t.Errorf("without a cause: %q", got)
	}
}

// fragileError cannot be asked what it says if it is nil.
type fragileError struct{ text string }

func (e *fragileError) Error() string { return e.text }

func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		run := b.start(rheo.GroupOptions{Handler: func(context.Context, *rheo.Delivery) error { panic("went wrong") }})
		b.pass(time.Millisecond)
		run.stop()
		equal(b.t, "errors logged", b.logs.at(slog.LevelError, "event"), []string{"handler panicked: went wrong: e"})
		if stack := b.logs.at(slog.LevelError, "stack"); !strings.Contains(stack[0], "TestPanicIsLogged") {
			b.t.Errorf("the stack does not show the handler: %s", stack)
		}
	})
}

// The backoff doubles with the attempts, which end in a dead letter.
func TestRetryBackoff(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 6}, func(b *bench) {
		b.append("e")
		seen := newHandled()
		run := b.start(rheo.GroupOptions{
			RetryBackoff: rheo.Backoff{Min: time.Second, Max: 8 * time.Second},
			Handler:      seen.by(func(context.Context, *rheo.Delivery) error { return errHandler }),
		})
		b.pass(2 * time.Minute)
		run.stop()
		equal(b.t, "handled", seen.ids(), []string{"e/1", "e/2", "e/3", "e/4", "e/5", "e/6"})
		for at, seconds := range []int{1, 2, 4, 8, 8} {
			all, whole := seen.all(), time.Duration(seconds)*time.Second
			if wait := all[at+1].at - all[at].at; !within(wait, whole*3/4, whole+2*time.Millisecond) {
				b.t.Errorf("waited %v after attempt %d, want up to a quarter less than %v", wait, at+1, whole)
			}
		}
		equal(b.t, "dead letters", b.deadLetters(), []string{"e: the handler's own"})
	})
}

// A retry that becomes due while the store is being asked is not waited for until
// the next poll.
func TestRetryDueDuringFetch(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append("e")
		seen := newHandled()
		run := b.start(rheo.GroupOptions{PollInterval: time.Hour, Handler: seen.by(func(_ context.Context, d *rheo.Delivery) error {
			if d.Attempt == 1 {
				b.slowFetch(200 * time.Millisecond)
				return rheo.RetryAfter(errHandler, 100*time.Millisecond)
			}
			return nil
		})})
		b.pass(time.Minute)
		run.stop()
		if all := seen.all(); len(all) != 2 || !within(all[1].at, 100*time.Millisecond, 500*time.Millisecond) {
			b.t.Errorf("handled %v", all)
		}
	})
}

// The handler may do with its delivery what it likes.
func TestHandlerChangesItsDelivery(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		b.append(names("e", 4)...)
		run := b.start(rheo.GroupOptions{LeaseDuration: time.Second, Handler: func(_ context.Context, d *rheo.Delivery) error {
			*d.Lease = rheo.Lease{Group: "another"}
			d.Lease = nil
			b.pass(5 * time.Second)
			return nil
		}})
		b.pass(time.Minute)
		run.stop()
		if lag := b.lag(); lag != 0 || len(b.settlements()) != 4 {
			b.t.Errorf("lag %d, settled %v", lag, b.settlements())
		}
	})
}
