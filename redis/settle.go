package redis

import (
	"context"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

var (
	settleScript = load("settle")
	renewScript  = load("renew")
)

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(r.Settlements))
	lease := func(item int) *rheo.Lease { return r.Settlements[item].Lease }
	batches := g.leaseBatches(len(r.Settlements), lease, func(item int, err error) { results[item] = err })
	calls, partitions := make([]*call, len(batches)), make([]int, len(batches))
	override := b.override()
	for i := range batches {
		partitions[i] = batches[i].partition
		calls[i] = b.settleCall(g, &batches[i], override, r.Settlements)
	}
	if ran, err := b.onGroup(ctx, writing, g, partitions, calls...); err != nil {
		return nil, partly(err, ran, "the settlements")
	}
	for i, c := range calls {
		for _, place := range integers(c.reply) {
			item := batches[i].items[place-1].item
			results[item] = staleLease(lease(item))
		}
	}
	if givesBack(r.Settlements) {
		b.hub(r.Stream).Wake()
	}
	return results, nil
}

func (b *Backend) settleCall(g *group, batch *leaseBatch, override string, settlements []rheo.Settlement) *call {
	args := []any{g.name, override}
	alike := func(x, y int) bool {
		s, t := &settlements[x], &settlements[y]
		return s.Outcome == t.Outcome && s.Delay == t.Delay && s.Reason == t.Reason
	}
	batch.runs(alike, func(first, last held) {
		s := &settlements[first.item]
		args = append(args, int64(first.token), first.sequence, last.sequence, int(s.Outcome), millis(s.Delay), s.Reason) //nolint:gosec // it has 33 bits
	})
	k := g.keys[batch.partition]
	return b.call(settleScript, []string{k.log, k.state, k.why, k.dead, k.whole}, args...)
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	results := make([]rheo.RenewResult, len(r.Leases))
	lease := func(item int) *rheo.Lease { return r.Leases[item] }
	batches := g.leaseBatches(len(r.Leases), lease, func(item int, err error) { results[item].Err = err })
	calls, partitions := make([]*call, len(batches)), make([]int, len(batches))
	override := b.override()
	for i := range batches {
		partitions[i] = batches[i].partition
		calls[i] = b.renewCall(g, &batches[i], override, r.Duration)
	}
	if ran, err := b.onGroup(ctx, writing, g, partitions, calls...); err != nil {
		return nil, partly(err, ran, "the renewal")
	}
	for i, c := range calls {
		if err := batches[i].readRenewal(results, lease, c.reply); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (b *Backend) renewCall(g *group, batch *leaseBatch, override string, d time.Duration) *call {
	args := []any{g.name, override, millis(d)}
	batch.runs(func(int, int) bool { return true }, func(first, last held) {
		args = append(args, int64(first.token), first.sequence, last.sequence) //nolint:gosec // it has 33 bits
	})
	k := g.keys[batch.partition]
	return b.call(renewScript, []string{k.log, k.state}, args...)
}

func (l *leaseBatch) readRenewal(results []rheo.RenewResult, lease func(int) *rheo.Lease, reply any) error {
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return damaged(l.partition, "the script's answer is another's")
	}
	due, _ := pair[0].(int64)
	for _, h := range l.items {
		results[h.item].ExpiresAt = time.UnixMilli(due).UTC()
	}
	for _, place := range integers(pair[1]) {
		item := l.items[place-1].item
		results[item] = rheo.RenewResult{Err: staleLease(lease(item))}
	}
	return nil
}
