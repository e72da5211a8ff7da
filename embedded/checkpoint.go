package embedded

// stageCheckpoint has every ledger written that is ahead of the database, so that
// what is in the claims log so far is not needed any more.
func (bt *batch) stageCheckpoint() error {
	turn := bt.b.claims.beginCheckpoint()
	bt.b.eachProgress(func(pr *progress) {
		pr.mu.Lock()
		ahead := pr.version > pr.durable
		pr.mu.Unlock()
		if ahead {
			bt.changeOf(pr).dirty = true
		}
	})
	bt.after = append(bt.after, func() { bt.b.claims.endCheckpoint(turn) })
	return nil
}

func (b *Backend) eachProgress(f func(*progress)) {
	b.streams.Range(func(_, s any) bool {
		s.(*stream).groups.Range(func(_, g any) bool {
			for _, pr := range g.(*group).progress {
				f(pr)
			}
			return true
		})
		return true
	})
}

// checkpoint writes every ledger that is ahead of the database, while the committer
// does not run.
func (b *Backend) checkpoint() error {
	bt := newBatch(b)
	var refused error
	if err := bt.run(func() { refused = bt.stageCheckpoint() }); err != nil {
		return err
	}
	return refused
}
