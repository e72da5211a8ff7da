package postgres

import (
	"context"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now, err := b.now(ctx)
	if err != nil {
		return nil, err
	}
	renew := delivery.NewRenew(r, g.plan, now)
	refused := lost(renew.Results())
	err = b.perform(ctx, change{
		group:      g,
		partitions: renew.Partitions(),
		apply: func(p int, l *ledger.Ledger) ([]ledger.Dead, bool) {
			return nil, renew.Apply(p, l)
		},
		sure:  func() bool { return lost(renew.Results()) == refused },
		quiet: true,
	})
	if err != nil {
		return nil, err
	}
	return renew.Results(), nil
}

func lost(results []rheo.RenewResult) int {
	n := 0
	for i := range results {
		if results[i].Err != nil {
			n++
		}
	}
	return n
}
