package rheo

import (
	"context"
	"sync"
)

// outage reports that an operation fails once when that begins and once when it
// ends, not every time.
type outage struct {
	report    *reporter
	operation Operation

	mu    sync.Mutex
	fails int // in a row
}

// failed counts a failure and returns how many there were in a row.
func (o *outage) failed(ctx context.Context, err error) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails++
	if o.fails == 1 {
		o.report.outageBegan(ctx, o.operation, err)
	}
	return o.fails
}

func (o *outage) worked(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.report.outageEnded(ctx, o.operation, o.fails)
	}
	o.fails = 0
}
