package rheo

import (
	"context"
	"errors"
	"sync"

	"github.com/rheo-go/rheo/internal/inflight"
)

// delivered is a lease in flight in a runtime.
type delivered struct {
	delivery Delivery // the handler's: it may do with it as it likes
	held     Lease    // the runtime's own copy, which never changes
	lane     *lane

	mu      sync.Mutex
	begun   bool // the host has it
	decided bool // its outcome is known, or somebody else's business: no handler may begin
	landed  bool // it is in flight no more
	ended   bool // its contexts have ended, with the cause
	cause   error
	cancel  context.CancelCauseFunc // ends its contexts; nil if there is none
}

func (d *delivered) place() inflight.Place {
	return inflight.Place{Partition: d.held.Partition, Sequence: d.held.Sequence}
}

// begin notes that the host is given it, and what ends the handler's context, if
// it has one. It reports false if there is nothing left to handle.
func (d *delivered) begin(cancel context.CancelCauseFunc) (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decided {
		return false
	}
	d.begun, d.cancel = true, cancel
	return true
}

// context returns a context that ends as the handler's would.
func (d *delivered) context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		cancel(d.cause)
		return ctx
	}
	if others := d.cancel; others != nil {
		d.cancel = func(cause error) {
			others(cause)
			cancel(cause)
		}
		return ctx
	}
	d.cancel = cancel
	return ctx
}

// endContexts ends those there are, and those asked for later.
func (d *delivered) endContexts(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endContextsLocked(cause)
}

func (d *delivered) endContextsLocked(cause error) {
	if d.ended {
		return
	}
	d.ended, d.cause = true, cause
	if d.cancel != nil {
		d.cancel(cause)
	}
}

// decide notes that the outcome is known, and reports whether it counts: not if
// the lease was lost meanwhile.
func (d *delivered) decide() (counts bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts, d.decided = !d.decided, true
	return counts
}

// giveBack reports whether nobody has begun with it, and sees to it that nobody
// will.
func (d *delivered) giveBack() (unstarted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decided || d.begun {
		return false
	}
	d.decided = true
	return true
}

// lose ends the contexts, or sees to it that no handler begins, and reports
// whether the outcome was still open.
func (d *delivered) lose(cause error) (open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decided {
		return false
	}
	d.decided = true
	d.endContextsLocked(cause)
	return true
}

// lost returns why the lease was lost, if it was.
func (d *delivered) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended && isLost(d.cause) {
		return d.cause
	}
	return nil
}

// land reports whether it was in flight until now.
func (d *delivered) land() (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first, d.landed = !d.landed, true
	return first
}

// breakLane holds up what lies behind d in its lane.
func (d *delivered) breakLane() { d.lane.breakAt(d.held.Sequence) }

// heldUp reports whether something before d in its lane has gone wrong.
func (d *delivered) heldUp() bool { return d.lane.holdsUp(d.held.Sequence) }

// flight is what a run has leased and not yet settled.
type flight struct {
	*inflight.Set[*delivered]
	report  *reporter
	retries *retries
	doubt   chan struct{} // receives when leases have turned out to be lost: others may be, too
}

func newFlight(limit int, report *reporter) *flight {
	return &flight{
		Set:     inflight.New(limit, (*delivered).place),
		report:  report,
		retries: newRetries(),
		doubt:   make(chan struct{}, 1),
	}
}

// land takes settled or abandoned deliveries out of flight: they are renewed no
// more, and make room for others. With the last of a lane the store may hand out
// what comes next in the partition.
func (f *flight) land(landed []*delivered) {
	f.Remove(landed)
	for _, d := range landed {
		if d.lane != nil && d.land() && d.lane.landOne() {
			f.retries.add(0)
		}
	}
}

// lose abandons deliveries whose leases are no longer held, as an error for each
// says: it ends their handlers' contexts and drops their outcomes. It returns how
// many outcomes were still open.
func (f *flight) lose(ctx context.Context, lost []*delivered, errs []error) int {
	var open []*delivered
	for at, d := range lost {
		d.breakLane()
		if d.lose(asStale(errs[at])) {
			open = append(open, d)
		}
	}
	f.land(lost)
	f.report.lost(ctx, open)
	return len(open)
}

// isLost reports whether an error means that the lease is no longer held.
func isLost(err error) bool {
	switch Classify(err) {
	case ReasonStaleLease, ReasonReceiptMismatch:
		return true
	}
	return false
}

// asStale is err as the cause that handlers are promised.
func asStale(err error) error {
	if errors.Is(err, ErrStaleLease) {
		return err
	}
	return WrapError(ErrStaleLease, err, "the lease was lost")
}
