package embedded

import (
	"context"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// claimed is what a fetch took in one partition.
type claimed struct {
	pr    *progress
	spans []ledger.Span
}

// Fetch implements [rheo.Backend].
//
// It changes the ledgers at once, and returns when the claims log has it and, if
// deliveries were rejected for want of attempts, when their dead letters are on
// disk.
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	if err := b.ableToClaim(); err != nil {
		return nil, err
	}
	now := b.now()
	fetch, err := delivery.NewFetch(r, g.plan, now)
	if err != nil {
		return nil, err
	}
	f := &fetching{b: b, g: g, fetch: fetch, consumer: r.ConsumerID, now: now}
	if err := f.claimAll(ctx); err != nil {
		return nil, err
	}
	if err := b.claims.flush(f.logged); err != nil {
		f.giveBack()
		return nil, err
	}
	if err := f.settleDead(ctx); err != nil && len(f.claims) == 0 {
		return nil, err // else it is for the next fetch to report
	}
	leases, err := f.leases()
	if err != nil {
		f.giveBack()
		return nil, err
	}
	return leases, nil
}

// ableToClaim reports what would make a fetch fail after it has changed ledgers.
func (b *Backend) ableToClaim() error {
	if err := b.db.refusal(); err != nil {
		return err
	}
	return b.claims.retry()
}

// fetching is a fetch under way.
type fetching struct {
	b        *Backend
	g        *group
	fetch    *delivery.Fetch
	consumer string
	now      time.Time
	claims   []claimed
	dead     []*progress // with dead letters to write
	logged   int64       // where in the claims log the last claim ends
}

// claimAll claims in one partition after the other. It waits for those that are
// shut only if the others have nothing.
func (f *fetching) claimAll(ctx context.Context) error {
	var shut []*progress
	for _, p := range f.fetch.Order(f.g.turn.Add(1)) {
		pr := f.g.progress[p]
		pr.mu.Lock()
		if pr.shut != nil {
			shut = append(shut, pr)
		} else {
			f.claim(pr)
		}
		pr.mu.Unlock()
		if f.fetch.Done() {
			return nil
		}
	}
	for _, pr := range shut {
		if len(f.claims) > 0 {
			return nil
		}
		if err := pr.acquire(ctx); err != nil {
			return err
		}
		f.claim(pr)
		pr.mu.Unlock()
	}
	return nil
}

// claim claims in one partition. The caller holds pr.mu.
func (f *fetching) claim(pr *progress) {
	taken := f.fetch.Apply(pr.ledger, pr.partition.high.Load())
	if len(taken.Spans)+len(taken.Dead) > 0 {
		pr.version++
	}
	if len(taken.Spans) > 0 {
		f.fetch.Took(taken.Spans)
		f.claims = append(f.claims, claimed{pr, taken.Spans})
		c := claim{
			group: f.g.number, partition: pr.partition.number, version: pr.version,
			id: f.fetch.Claim(), expires: f.fetch.Expires().UnixMicro(), consumer: f.consumer, spans: taken.Spans,
		}
		f.logged = f.b.claims.append(&c)
		pr.did(func(l *ledger.Ledger) { _ = c.restore(l) }) // claims fit, in their order
	}
	pr.bury(taken.Dead, f.now)
	// Those of a commit under way are that commit's; others that wait here were
	// left by one that failed.
	if len(taken.Dead) > 0 || len(pr.dead) > 0 && pr.window == nil {
		f.dead = append(f.dead, pr)
	}
}

// settleDead writes the dead letters that wait in the partitions fetched from.
func (f *fetching) settleDead(ctx context.Context) error {
	if len(f.dead) == 0 {
		return nil
	}
	return f.b.committer.do(ctx, 0, func(bt *batch) error {
		for _, pr := range f.dead {
			pr.mu.Lock()
			waiting := len(pr.dead) > 0
			pr.mu.Unlock()
			if waiting {
				bt.changeOf(pr).dirty = true
			}
		}
		return nil
	})
}

// leases reads the events and makes the leases.
func (f *fetching) leases() ([]*rheo.Lease, error) {
	var leases []*rheo.Lease
	for _, c := range f.claims {
		events, err := c.load(f.b.db)
		if err != nil {
			return nil, err
		}
		at := 0
		leases = f.fetch.Leases(leases, c.pr.partition.number, c.spans, func(_ int64, e *rheo.Event) {
			*e = events[at]
			at++
		})
	}
	return leases, nil
}

func (c *claimed) load(db *database) ([]rheo.Event, error) {
	n := 0
	for _, s := range c.spans {
		n += s.Len()
	}
	events := make([]rheo.Event, 0, n)
	for i := 0; i < len(c.spans); {
		first, last := c.spans[i].From, c.spans[i].To
		for i++; i < len(c.spans) && c.spans[i].From == last+1; i++ {
			last = c.spans[i].To
		}
		var err error
		if events, err = c.pr.partition.load(db, events, first, last); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// giveBack releases what was claimed but cannot be handed out, so that no attempt
// is spent. That is for this process only: after a crash the claims log may have
// the claim.
func (f *fetching) giveBack() {
	for _, c := range f.claims {
		release := func(l *ledger.Ledger) { c.release(l, f.fetch.Claim()) }
		c.pr.mu.Lock()
		release(c.pr.ledger)
		c.pr.version++
		c.pr.did(release)
		c.pr.mu.Unlock()
	}
}

func (c *claimed) release(l *ledger.Ledger, claim uint64) {
	var batch []ledger.Settlement
	for _, s := range c.spans {
		for sequence := s.From; sequence <= s.To; sequence++ {
			batch = append(batch, ledger.Settlement{
				Ref: ledger.Ref{Sequence: sequence, Claim: claim}, Outcome: ledger.Release,
			})
		}
	}
	const unbounded = 0 // attempts: a release rejects nothing
	l.Settle(batch, unbounded)
}
