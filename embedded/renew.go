package embedded

import (
	"context"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Renew implements [rheo.Backend]. Nothing is written: see the package's comment.
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	if err := b.db.refusal(); err != nil {
		return nil, err
	}
	now := b.now()
	plan := delivery.NewRenew(r, g.plan, now)
	for _, p := range plan.Partitions() {
		pr := g.progress[p]
		if err := pr.acquire(ctx); err != nil {
			return nil, err
		}
		if plan.Apply(p, pr.ledger) && pr.window != nil {
			again := g.planAgain(r, now)
			pr.did(func(l *ledger.Ledger) { again.Apply(p, l) })
		}
		pr.mu.Unlock()
	}
	return plan.Results(), nil
}

// planAgain plans a renewal that may be applied when the call has long returned:
// on copies of the leases, which are the caller's.
func (g *group) planAgain(r rheo.RenewRequest, now time.Time) *delivery.Renew {
	leases := make([]*rheo.Lease, len(r.Leases))
	for i, l := range r.Leases {
		leases[i] = &rheo.Lease{LeaseID: l.LeaseID, Receipt: l.Receipt}
	}
	r.Leases = leases
	return delivery.NewRenew(r, g.plan, now)
}
