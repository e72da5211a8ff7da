package embedded

import (
	"context"
	"slices"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now := b.now()
	plan := delivery.NewSettle(r, g.plan, now)
	partitions := plan.Partitions()
	if len(partitions) == 0 {
		return plan.Results(), nil
	}
	wakes := givesBack(r.Settlements)
	err = b.committer.do(ctx, 0, func(bt *batch) error {
		for _, p := range partitions {
			c := bt.changeOf(g.progress[p])
			c.pr.mu.Lock()
			c.open(g.plan.Ordered)
			dead, changed := plan.Apply(p, c.pr.ledger, g.config.MaxAttempts)
			if changed {
				c.changed()
				c.pr.bury(dead, now)
			}
			c.pr.mu.Unlock()
		}
		if wakes {
			bt.wake(g.stream)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return plan.Results(), nil
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}
