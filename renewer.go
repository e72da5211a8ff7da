package rheo

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/rheo-go/rheo/internal/inflight"
)

// renewer renews all that is in flight at half the lease, in batches, and ends
// the handler's context where a lease turns out to be lost.
type renewer struct {
	instance *Instance
	flight   *inflight.Set[*delivered]
	duration time.Duration
	timeout  time.Duration
	backoff  Backoff
	logger   *slog.Logger
	outage   outage
}

// run renews until ctx ends.
func (r *renewer) run(ctx context.Context) {
	r.outage = outage{logger: r.logger, operation: "renew"}
	timer := time.NewTimer(r.duration / 2)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := r.duration / 2
		for batch := range slices.Chunk(r.flight.All(), MaxBatch) {
			if err := r.renew(ctx, batch); err != nil {
				wait = min(wait, r.backoff.Delay(r.outage.failed(ctx, err)))
			}
		}
		timer.Reset(wait)
	}
}

func (r *renewer) renew(ctx context.Context, batch []*delivered) error {
	leases := make([]*Lease, len(batch))
	for at, d := range batch {
		leases[at] = d.delivery.Lease
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	results, err := r.instance.Renew(bounded, r.duration, leases...)
	if err != nil {
		return err
	}
	r.outage.worked(ctx)
	var lost []*delivered
	for at, result := range results {
		if result.Err != nil {
			batch[at].lose(result.Err)
			lost = append(lost, batch[at])
		}
	}
	r.report(ctx, lost)
	land(r.flight, lost)
	return nil
}

// report says which leases were lost, but for those settled since the batch was
// taken.
func (r *renewer) report(ctx context.Context, lost []*delivered) {
	for _, d := range lost {
		if _, inFlight := r.flight.Get(d.leaseID()); inFlight {
			r.logger.LogAttrs(ctx, slog.LevelWarn, "lease lost",
				slog.String("event", d.delivery.ID), slog.Int("partition", d.delivery.Partition),
				slog.Int64("sequence", d.delivery.Sequence), slog.Int("attempt", d.delivery.Attempt))
		}
	}
}
