package faultbackend

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// Next makes the call that a fault stands before.
type Next func(ctx context.Context, c *Call) error

// Fault takes the place of a call. It may make it by calling next, or not, and
// returns what the caller gets. Write one, or compose those below.
type Fault func(ctx context.Context, c *Call, next Next) error

// Fail returns err instead of making the call.
func Fail(err error) Fault {
	return func(context.Context, *Call, Next) error { return err }
}

// LoseReply makes the call and then returns err.
func LoseReply(err error) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		if failed := next(ctx, c); failed != nil {
			return failed
		}
		return err
	}
}

// Hold keeps the call back until gate is closed or receives. If ctx ends first,
// it is not made, and the error is ErrUnavailable.
func Hold(gate <-chan struct{}) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		select {
		case <-gate:
			return next(ctx, c)
		case <-ctx.Done():
			return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the %s was held back", c.Op)
		}
	}
}

// HoldReply makes the call and keeps its reply back until gate is closed or
// receives. If ctx ends first, the error is ErrAmbiguous.
func HoldReply(gate <-chan struct{}) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		err := next(ctx, c)
		select {
		case <-gate:
			return err
		case <-ctx.Done():
			return rheo.WrapError(rheo.ErrAmbiguous, ctx.Err(), "the reply to the %s was held back", c.Op)
		}
	}
}

// Delay is [Hold] for a time.
func Delay(d time.Duration) Fault { return timed(d, Hold) }

// DelayReply is [HoldReply] for a time.
func DelayReply(d time.Duration) Fault { return timed(d, HoldReply) }

func timed(d time.Duration, hold func(<-chan struct{}) Fault) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		over := make(chan struct{})
		timer := time.AfterFunc(d, func() { close(over) })
		defer timer.Stop()
		return hold(over)(ctx, c, next)
	}
}

// Items gives those items of a settle or renewal for which result returns an
// error that error, and keeps them from the store.
func Items(result func(*rheo.Lease) error) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		passed := *c
		passed.Settlements, passed.Leases = nil, nil
		errs := make([]error, items(c))
		for at := range errs {
			if errs[at] = result(item(c, at)); errs[at] == nil {
				passed.take(c, at)
			}
		}
		if err := next(ctx, &passed); err != nil {
			return err
		}
		for at, left := 0, passed.Items; at < len(errs); at++ {
			if errs[at] == nil {
				errs[at], left = left[0], left[1:]
			}
		}
		c.Items = errs
		return nil
	}
}

// LoseItems is [Items] for results that are lost after the store has done what it
// was asked to.
func LoseItems(result func(*rheo.Lease) error) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		if err := next(ctx, c); err != nil {
			return err
		}
		for at := range c.Items {
			if err := result(item(c, at)); err != nil {
				c.Items[at] = err
			}
		}
		return nil
	}
}

func items(c *Call) int { return max(len(c.Settlements), len(c.Leases)) }

func item(c *Call, at int) *rheo.Lease {
	if c.Op == Settle {
		return c.Settlements[at].Lease
	}
	return c.Leases[at]
}

func (c *Call) take(from *Call, at int) {
	if c.Op == Settle {
		c.Settlements = append(c.Settlements, from.Settlements[at])
	} else {
		c.Leases = append(c.Leases, from.Leases[at])
	}
}

// Times lets the first n calls go through the fault, and the others past it.
func Times(n int, fault Fault) Fault {
	var seen atomic.Int64
	return func(ctx context.Context, c *Call, next Next) error {
		if seen.Add(1) > int64(n) {
			return next(ctx, c)
		}
		return fault(ctx, c, next)
	}
}

// When lets the calls that are chosen go through the fault, and the others past
// it.
func When(chosen func(*Call) bool, fault Fault) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		if !chosen(c) {
			return next(ctx, c)
		}
		return fault(ctx, c, next)
	}
}

// All puts faults one inside the other, the first outermost.
func All(faults ...Fault) Fault {
	return func(ctx context.Context, c *Call, next Next) error {
		for _, fault := range slices.Backward(faults) {
			inner := next
			next = func(ctx context.Context, c *Call) error { return fault(ctx, c, inner) }
		}
		return next(ctx, c)
	}
}
