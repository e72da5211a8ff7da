package memory

import (
	"context"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// Replay implements [rheo.Backend]. It works on copies under the locks of every
// partition it touches, so that a selection refused in one changes none.
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	s, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	partitions, err := delivery.ReplayPartitions(r, g.plan)
	if err != nil {
		return 0, err
	}
	for _, p := range partitions {
		g.progress[p].mu.Lock()
	}
	defer func() {
		for _, p := range partitions {
			g.progress[p].mu.Unlock()
		}
	}()
	ledgers := make([]*ledger.Ledger, len(partitions))
	reopened := make([]delivery.Reopened, len(partitions))
	for i, p := range partitions {
		ledgers[i] = g.progress[p].ledger.Clone()
		v := s.partitions[p].view()
		reopened[i], err = delivery.Replay(ctx, r, p, ledgers[i], v.high(), func(context.Context, int) (int64, error) {
			return v.seekTime(r.FromTime), nil
		})
		if err != nil {
			return 0, err
		}
	}
	var count int64
	for i, p := range partitions {
		g.progress[p].ledger = ledgers[i]
		g.progress[p].exhume(reopened[i])
		count += reopened[i].Count
	}
	s.watchers.Wake()
	return count, nil
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	s, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return err
	}
	partitions, err := delivery.ResetPartitions(r, g.plan)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		cursor := g.progress[p].start
		if r.Start != nil {
			if cursor, err = s.startCursor(ctx, *r.Start, p); err != nil {
				return err
			}
		}
		g.progress[p].reset(cursor)
	}
	s.watchers.Wake()
	return nil
}

func (pr *progress) reset(cursor int64) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.ledger.Reset(cursor)
	pr.dead = nil
}
