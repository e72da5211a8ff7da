package sqlite

import (
	"context"
	"slices"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	renew := delivery.NewRenew(r, g.plan, b.now())
	err = b.writer.do(ctx, func(ctx context.Context, tx *transaction) error {
		for _, p := range renew.Partitions() {
			h, err := tx.ledger(ctx, g, p)
			if err != nil {
				return err
			}
			if renew.Apply(p, h.Ledger) {
				tx.change(h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return renew.Results(), nil
}

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	settle := delivery.NewSettle(r, g.plan, b.now())
	err = b.write(ctx, func(ctx context.Context, tx *transaction) error {
		if err := b.settle(ctx, tx, g, settle); err != nil {
			return err
		}
		if givesBack(r.Settlements) {
			b.signal(tx, g.stream)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settle.Results(), nil
}

func (b *Backend) settle(ctx context.Context, tx *transaction, g *group, settle *delivery.Settle) error {
	now := b.now()
	for _, p := range settle.Partitions() {
		h, err := tx.ledger(ctx, g, p)
		if err != nil {
			return err
		}
		dead, changed := settle.Apply(p, h.Ledger, g.config.MaxAttempts)
		if !changed {
			continue
		}
		tx.change(h)
		if err := bury(ctx, tx, g, p, dead, now); err != nil {
			return err
		}
	}
	return nil
}

// signal tells this process, once the transaction is committed, and all others
// that deliveries of the stream became available.
func (b *Backend) signal(tx *transaction, s *stream) {
	if tx.changes == 0 {
		return
	}
	tx.signal(s)
	tx.after = append(tx.after, func() { b.watchers.signalled(s) })
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}
