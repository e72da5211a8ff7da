package backendtest_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

func (b *naive) Settle(_ context.Context, r rheo.SettleRequest) ([]error, error) {
	s, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	results := make([]error, len(r.Settlements))
	for i := range r.Settlements {
		settlement := &r.Settlements[i]
		d, at, err := b.held(g, settlement.Lease, settlement.Outcome.String())
		if err != nil {
			results[i] = err
			if b.has("a lost lease ends the batch") {
				break
			}
			continue
		}
		if b.has("first partition only") && at.partition != r.Settlements[0].Lease.Partition {
			continue
		}
		if b.has("at most a hundred") && i >= 100 {
			break
		}
		b.apply(g, at, d, settlement)
		if b.has("acks delete") && settlement.Outcome == rheo.OutcomeAck {
			s.log[at.partition][at.sequence-1].ID = "deleted"
		}
	}
	if b.has("results by sequence") {
		slices.SortFunc(results, func(a, b error) int { return cmp.Compare(len(errorText(a)), len(errorText(b))) })
	}
	if !b.has("only appends are hinted at") {
		b.wake(r.Stream)
	}
	return results, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (b *naive) apply(g *group, at place, d *delivery, s *rheo.Settlement) {
	now := b.now()
	spent := d.attempt >= g.config.MaxAttempts
	d.leased = b.has("settled stays leased")
	if !d.leased {
		d.lease = ""
	}
	d.at = now
	switch s.Outcome {
	case rheo.OutcomeAck:
		delete(g.deliveries, at)
		if b.has("an ack of the last attempt rejects") && spent {
			g.deliveries[at] = d
			d.die(now, "spent")
		}
		if b.has("ack takes its neighbour") {
			delete(g.deliveries, place{at.partition, at.sequence + 1})
		}
	case rheo.OutcomeRelease:
		if !b.has("release spends") {
			d.attempt--
		}
		if b.has("release forgets the reason") {
			d.reason = ""
		}
		if b.has("release at the end rejects") && spent {
			d.die(now, "released")
		}
	case rheo.OutcomeNack:
		d.reason = s.Reason
		if spent && !b.has("nack never rejects") {
			d.die(now, s.Reason)
			break
		}
		if !b.has("delay ignored") {
			d.at = now.Add(s.Delay)
		}
	default:
		d.die(now, s.Reason)
		if b.has("reject comes back") {
			d.dead = false
		}
		if b.has("dead letters without reason") {
			d.reason = "rejected"
		}
	}
	if b.has("reasons cut at 10") {
		d.reason = d.reason[:min(10, len(d.reason))]
	}
}

func (g *group) dead() []place {
	var dead []place
	for at, d := range g.deliveries {
		if d.dead {
			dead = append(dead, at)
		}
	}
	slices.SortFunc(dead, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.sequence, b.sequence))
	})
	return dead
}

func (b *naive) DeadLetters(_ context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	s, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	defer b.mu.Unlock()
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	dead := g.dead()
	if b.has("dead letters by time") {
		slices.SortStableFunc(dead, func(x, y place) int { return cmp.Compare(x.sequence, y.sequence) })
	}
	if b.has("a hundred dead letters") {
		dead = dead[:min(100, len(dead))]
	}
	for _, at := range dead {
		if at.sequence <= r.Cursor.After[at.partition] {
			continue
		}
		if len(page.DeadLetters) == r.Limit {
			page.More = true
			break
		}
		d := g.deliveries[at]
		e := b.copied(&s.log[at.partition][at.sequence-1])
		page.DeadLetters = append(page.DeadLetters, rheo.DeadLetter{
			EventID: e.ID, Partition: at.partition, Sequence: at.sequence, Attempts: d.attempt, Reason: d.reason, DeadLetteredAt: d.at, Event: e,
		})
		page.Next.After[at.partition] = at.sequence
		if b.has("dead letters without event") {
			page.DeadLetters[len(page.DeadLetters)-1].Event.Metadata = nil
		}
		if b.has("dead since the event") {
			page.DeadLetters[len(page.DeadLetters)-1].DeadLetteredAt = e.Timestamp
		}
	}
	return page, nil
}

func (b *naive) chosen(g *group, named []int) ([]int, error) {
	for _, p := range named {
		if !slices.Contains(g.config.Partitions, p) {
			return nil, rheo.Errorf(rheo.ErrInvalid, "partition %d is not the group's", p)
		}
	}
	if len(named) == 0 || b.has("replays everything") {
		return g.config.Partitions, nil
	}
	return named, nil
}

func (b *naive) Replay(_ context.Context, r rheo.ReplayRequest) (int64, error) {
	s, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	partitions, err := b.chosen(g, r.Partitions)
	if err != nil {
		return 0, err
	}
	groups := []*group{g}
	if b.has("replays every group") {
		groups = slices.Collect(maps.Values(s.groups))
	}
	var opened int64
	for _, g := range groups {
		for _, p := range partitions {
			opened += b.reopenPartition(s, g, p, r)
		}
	}
	b.wake(r.Stream)
	return opened, nil
}

func (b *naive) reopenPartition(s *stream, g *group, p int, r rheo.ReplayRequest) (opened int64) {
	if r.FromSequence > g.cursor[p] && b.has("replay moves the cursor") {
		g.cursor[p] = r.FromSequence - 1
	}
	for sequence := int64(1); sequence <= min(g.cursor[p], int64(len(s.log[p]))); sequence++ {
		at := place{p, sequence}
		selected := slices.Contains(r.Sequences[p], sequence)
		switch {
		case r.FromSequence > 0:
			selected = sequence >= r.FromSequence
		case !r.FromTime.IsZero():
			selected = sequence >= s.first(p, r.FromTime)
			if b.has("replays by time") {
				selected = !s.log[p][sequence-1].Timestamp.Before(r.FromTime)
			}
		}
		if !selected {
			if b.has("replay acks what is below") {
				delete(g.deliveries, at)
			}
			if b.has("replay fences everything") && g.deliveries[at] != nil {
				g.deliveries[at].lease = "fenced"
			}
			continue
		}
		opened++
		b.reopenOne(g, at)
	}
	return opened
}

func (b *naive) reopenOne(g *group, at place) {
	old := g.deliveries[at]
	if old == nil {
		old = &delivery{}
	}
	fresh := &delivery{at: time.Time{}}
	switch {
	case b.has("replay keeps attempts"):
		fresh.attempt = old.attempt
	case b.has("replay keeps leases") && old.leased, b.has("replay keeps delays") && !old.leased && !old.dead, b.has("replay keeps dead letters") && old.dead:
		fresh = old
	}
	g.deliveries[at] = fresh
}

func (b *naive) Reset(_ context.Context, r rheo.ResetRequest) error {
	s, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	partitions, err := b.chosen(g, r.Partitions)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		g.cursor[p] = g.start[p]
		switch {
		case b.has("reset to zero"):
			g.cursor[p] = 0
		case r.Start != nil && !b.has("reset ignores its start"):
			g.cursor[p] = b.resolve(s, *r.Start, p)
		case b.has("reset resolves again"):
			g.cursor[p] = b.resolve(s, g.config.Start, p)
		}
		for at, d := range g.deliveries {
			if at.partition == p && !(d.dead && b.has("reset keeps dead letters")) && !(d.leased && b.has("reset keeps leases")) {
				delete(g.deliveries, at)
			}
		}
	}
	b.wake(r.Stream)
	return nil
}
