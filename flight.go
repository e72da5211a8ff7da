package rheo

import (
	"context"
	"sync"

	"github.com/rheo-go/rheo/internal/inflight"
)

// delivered is a lease in flight in a runtime.
type delivered struct {
	delivery Delivery
	lane     *lane

	mu     sync.Mutex
	lost   bool
	cancel context.CancelCauseFunc // set while the handler runs
}

func (d *delivered) leaseID() string { return d.delivery.LeaseID }

// lane is a batch that must be handled and settled in order. Once an outcome in
// it has failed, nothing behind it may be acked. A nil lane has no order to keep.
type lane struct {
	mu     sync.Mutex
	broken bool
}

func (l *lane) breakOff() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

func (l *lane) isBroken() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// begin makes the handler's context, unless the lease is lost.
func (d *delivered) begin(parent context.Context) (ctx context.Context, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return nil, false
	}
	ctx, d.cancel = context.WithCancelCause(parent)
	return ctx, true
}

// end releases the handler's context, and reports whether the lease is still
// held as far as this process knows.
func (d *delivered) end() (held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel(nil)
	d.cancel = nil
	return !d.lost
}

// lose marks the lease as lost and ends its handler's context.
func (d *delivered) lose(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	if d.cancel != nil {
		d.cancel(cause)
	}
}

func newFlight(limit int) *inflight.Set[*delivered] { return inflight.New[*delivered](limit) }

// land takes settled or abandoned deliveries out of flight: they are renewed no
// more, and make room for others.
func land(flight *inflight.Set[*delivered], landed []*delivered) {
	flight.Remove(len(landed), func(at int) string { return landed[at].leaseID() })
}
