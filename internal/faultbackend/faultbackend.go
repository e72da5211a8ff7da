// Package faultbackend wraps a [rheo.Backend] for tests: it notes every call, and
// makes those go wrong that a test chooses, in the way it chooses.
//
//	store := faultbackend.New(memory.New(nil))
//	store.Inject(faultbackend.Times(2, faultbackend.LoseReply(err)), faultbackend.Settle)
package faultbackend

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
)

// Op names a method of [rheo.Backend].
type Op string

// The operations. Capabilities, Close and Watch are passed on as they are.
const (
	EnsureSchema Op = "ensure schema"
	Ping         Op = "ping"
	CreateStream Op = "create stream"
	Stream       Op = "stream"
	Streams      Op = "streams"
	Append       Op = "append"
	Read         Op = "read"
	Query        Op = "query"
	CreateGroup  Op = "create group"
	Group        Op = "group"
	Groups       Op = "groups"
	DeadLetters  Op = "dead letters"
	Fetch        Op = "fetch"
	Renew        Op = "renew"
	Settle       Op = "settle"
	Replay       Op = "replay"
	Reset        Op = "reset"
)

// Call is one call as it was made and as it came back.
type Call struct {
	Op     Op
	Number int       // of this operation, from 1
	At     time.Time // when it was made
	Took   time.Duration
	Max    int // of a fetch

	// Settlements or Leases are what the caller asked to settle or renew, and what
	// a fetch returned. Items has a result for each settlement, or each lease of a
	// renewal.
	Settlements []rheo.Settlement
	Leases      []*rheo.Lease
	Items       []error
	Err         error
}

// Backend is a backend under observation. Make one with [New]. It is safe for
// concurrent use, and is a [rheo.Waiter] as far as the backend inside is one.
type Backend struct {
	inner rheo.Backend

	mu     sync.Mutex
	faults []*injected
	counts map[Op]int
	calls  []*Call
}

type injected struct {
	fault Fault
	ops   []Op // empty: all
}

var (
	_ rheo.Backend = (*Backend)(nil)
	_ rheo.Waiter  = (*Backend)(nil)
)

// New wraps a backend. Without faults it does what the inner one does.
func New(inner rheo.Backend) *Backend {
	return &Backend{inner: inner, counts: make(map[Op]int)}
}

// Inject makes calls of the operations, or of all if none is named, go through
// the fault, until remove is called. Of several faults the first injected is the
// outermost.
func (b *Backend) Inject(fault Fault, ops ...Op) (remove func()) {
	i := &injected{fault: fault, ops: ops}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, i)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = slices.DeleteFunc(b.faults, func(f *injected) bool { return f == i })
	}
}

// Calls returns the calls of the operation that have come back, in that order.
func (b *Backend) Calls(op Op) []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	var calls []Call
	for _, c := range b.calls {
		if c.Op == op {
			calls = append(calls, *c)
		}
	}
	return calls
}

// Count returns how many calls of the operation were made, those that have not
// come back included.
func (b *Backend) Count(op Op) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[op]
}

// Forget empties the log; the count goes on.
func (b *Backend) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = nil
}

// do makes the call through the faults that concern it, and notes it.
func (b *Backend) do(ctx context.Context, c *Call, call Next) error {
	b.mu.Lock()
	b.counts[c.Op]++
	c.Number, c.At = b.counts[c.Op], time.Now()
	next := call
	for _, i := range slices.Backward(b.faults) {
		if len(i.ops) == 0 || slices.Contains(i.ops, c.Op) {
			fault, inner := i.fault, next
			next = func(ctx context.Context, c *Call) error { return fault(ctx, c, inner) }
		}
	}
	b.mu.Unlock()
	asked := *c // a fault may change what the store is asked
	c.Err = next(ctx, c)
	asked.Items, asked.Err, asked.Took = slices.Clone(c.Items), c.Err, time.Since(c.At)
	if c.Op == Fetch {
		asked.Leases = slices.Clone(c.Leases)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, &asked)
	return c.Err
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities { return b.inner.Capabilities() }

// Close implements [rheo.Backend].
func (b *Backend) Close() error { return b.inner.Close() }

// Watch implements [rheo.Waiter]: without hints if the backend inside has none.
func (b *Backend) Watch(stream string) (hints <-chan struct{}, stop func()) {
	if w, ok := b.inner.(rheo.Waiter); ok {
		return w.Watch(stream)
	}
	return nil, func() {}
}
