package rheo

import (
	"context"
	"log/slog"
	"sync"
)

// outage reports that an operation fails once when that begins and once when it
// ends, not every time.
type outage struct {
	logger    *slog.Logger
	operation string

	mu    sync.Mutex
	fails int // in a row
}

// failed counts a failure and returns how many there were in a row.
func (o *outage) failed(ctx context.Context, err error) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails++
	if o.fails == 1 {
		o.logger.LogAttrs(ctx, slog.LevelWarn, "store operation fails; going on trying",
			slog.String("operation", o.operation), slog.String("reason", string(Classify(err))), slog.Any("error", err))
	}
	return o.fails
}

func (o *outage) worked(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.logger.LogAttrs(ctx, slog.LevelInfo, "store operation works again",
			slog.String("operation", o.operation), slog.Int("failures", o.fails))
	}
	o.fails = 0
}
