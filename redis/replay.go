package redis

import (
	"context"
	"slices"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

var (
	replayScript = load("replay")
	reopenScript = load("reopen")
	resetScript  = load("reset")
)

// Replay implements [rheo.Backend].
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil || len(partitions) == 0 {
		return 0, err
	}
	calls, places, err := b.replayCalls(ctx, g, r, partitions)
	if err != nil {
		return 0, err
	}
	ran, err := b.onGroup(ctx, writing, g, places, calls...)
	if ran > 0 {
		b.hub(r.Stream).Wake()
	}
	if err != nil {
		return 0, partly(err, ran, "the replay")
	}
	var opened int64
	for _, c := range calls {
		n, _ := c.reply.(int64)
		opened += n
	}
	return opened, nil
}

// replayCalls returns the scripts to run, and the partition of each.
func (b *Backend) replayCalls(ctx context.Context, g *group, r rheo.ReplayRequest, partitions []int) (calls []*call, places []int, err error) {
	if r.Sequences != nil {
		calls, places = b.reopenCalls(g, r, partitions)
		return calls, places, nil
	}
	firsts := slices.Repeat([]int64{exact(r.FromSequence)}, len(partitions))
	if !r.FromTime.IsZero() {
		if firsts, err = b.seekTime(ctx, g.stream, partitions, r.FromTime); err != nil {
			return nil, nil, err
		}
	}
	for i, p := range partitions {
		calls = append(calls, b.call(replayScript, g.keys[p].all(), g.name, formatInt(firsts[i])))
	}
	return calls, partitions, nil
}

// reopenCalls cuts a selection of single events so that no script takes long.
func (b *Backend) reopenCalls(g *group, r rheo.ReplayRequest, partitions []int) (calls []*call, places []int) {
	const most = 2000
	for _, p := range partitions {
		sequences := slices.Compact(slices.Sorted(slices.Values(r.Sequences[p])))
		for some := range slices.Chunk(sequences, most) {
			args := make([]any, 0, 1+len(some))
			args = append(args, g.name)
			for _, s := range some {
				args = append(args, formatInt(exact(s)))
			}
			calls = append(calls, b.call(reopenScript, g.keys[p].all(), args...))
			places = append(places, p)
		}
	}
	return calls, places
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return err
	}
	partitions, err := delivery.ResetPartitions(r, g.plan)
	if err != nil {
		return err
	}
	starts := make([]int64, len(partitions))
	for i, p := range partitions {
		starts[i] = g.record.Starts[slices.Index(g.record.Partitions, p)]
	}
	if r.Start != nil {
		if starts, err = b.startCursors(ctx, g.stream, *r.Start, partitions); err != nil {
			return err
		}
	}
	calls := make([]*call, len(partitions))
	for i, p := range partitions {
		calls[i] = b.call(resetScript, g.keys[p].all(), g.settings(starts[i])...)
	}
	ran, err := b.onStream(ctx, writing, g.stream, calls...)
	if ran > 0 {
		b.hub(r.Stream).Wake()
	}
	return partly(err, ran, "the reset")
}
