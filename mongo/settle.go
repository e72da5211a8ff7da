package mongo

import (
	"context"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now, err := b.now(ctx)
	if err != nil {
		return nil, err
	}
	settle := delivery.NewSettle(r, g.plan, now)
	err = b.change(ctx, g, settle.Partitions(), now, func(p int, l *ledger.Ledger) ([]ledger.Dead, bool) {
		return settle.Apply(p, l, g.plan.MaxAttempts)
	})
	if err != nil {
		return nil, err
	}
	if givesBack(r.Settlements) && hostSession(ctx) == nil {
		b.hub(r.Stream).Wake()
	}
	return settle.Results(), nil
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now, err := b.now(ctx)
	if err != nil {
		return nil, err
	}
	renew := delivery.NewRenew(r, g.plan, now)
	err = b.change(ctx, g, renew.Partitions(), now, func(p int, l *ledger.Ledger) ([]ledger.Dead, bool) {
		return nil, renew.Apply(p, l)
	})
	if err != nil {
		return nil, err
	}
	return renew.Results(), nil
}

// change applies a plan to the ledgers of the partitions: it reads them together,
// and stores together what has changed; and again those that others have changed
// meanwhile.
func (b *Backend) change(ctx context.Context, g *group, partitions []int, now time.Time, apply func(int, *ledger.Ledger) ([]ledger.Dead, bool)) error {
	var p patience
	for stored := false; len(partitions) > 0; {
		rows, err := b.ledgersOf(ctx, g, partitions)
		if err != nil {
			return doneBefore(stored, err)
		}
		var swaps []*swap
		for _, r := range rows {
			l, err := r.decode()
			if err != nil {
				return doneBefore(stored, err)
			}
			if dead, changed := apply(r.Partition, l); changed {
				w := &swap{old: r, new: r.next(l)}
				w.bury(dead, now)
				swaps = append(swaps, w)
			}
		}
		if err := b.store(ctx, swaps); err != nil {
			return doneBefore(stored, err)
		}
		partitions = partitions[:0:0]
		for _, w := range swaps {
			if w.won {
				stored = true
			} else {
				partitions = append(partitions, w.old.Partition)
			}
		}
		if len(partitions) > 0 && hostSession(ctx) != nil {
			return rheo.WrapError(rheo.ErrUnavailable, transient{}, "another change of the group came first; repeat the transaction")
		}
		if len(partitions) > 0 {
			if err := p.wait(ctx); err != nil {
				return doneBefore(stored, err)
			}
		}
	}
	return nil
}

// doneBefore is err, after a part of the call may have been done.
func doneBefore(stored bool, err error) error {
	if stored {
		return ambiguous(err)
	}
	return err
}
