package embedded

import (
	"github.com/rheo-go/rheo"
	"go.etcd.io/bbolt"
)

// batch is what one commit brings: the transaction, and what in memory depends on
// its outcome. It belongs to the committer's goroutine.
type batch struct {
	b      *Backend
	tx     *bbolt.Tx
	staged chan struct{} // closed when every request of the batch was staged
	failed error         // set by abort

	streams    map[string]*stream  // created in it, by name
	groups     map[groupKey]*group // likewise
	partitions []*partition        // that get events
	aged       []*partition        // whose IDs enter their index
	changes    []*change           // of ledgers
	buried     map[*group]int64    // dead letters added, less those removed
	wakes      []*stream
	after      []func() // runs after the commit
	arena      *arena
}

type groupKey struct {
	stream *stream
	name   string
}

func newBatch(b *Backend) *batch {
	return &batch{
		b:       b,
		staged:  make(chan struct{}),
		streams: make(map[string]*stream),
		groups:  make(map[groupKey]*group),
		buried:  make(map[*group]int64),
		arena:   &arena{},
	}
}

// abort makes the whole batch fail: part of a request may be in the transaction.
func (bt *batch) abort(err error) error {
	if bt.failed == nil {
		bt.failed = rheo.WrapError(rheo.ErrFailed, err, "writing to %s; nothing was changed", bt.b.db.path)
	}
	return bt.failed
}

func (bt *batch) wake(s *stream) { bt.wakes = append(bt.wakes, s) }

// run stages the requests, commits, and makes the outcome visible: all of it, or
// nothing.
func (bt *batch) run(stage func()) error {
	staged := false
	err := bt.b.db.update(func(tx *bbolt.Tx) (bool, error) {
		bt.tx = tx
		stage()
		staged = true
		close(bt.staged)
		if bt.failed != nil {
			return false, bt.failed
		}
		return bt.write()
	})
	if !staged { // it panicked, or there was no transaction
		close(bt.staged)
	}
	if err != nil {
		bt.rollBack()
		return err
	}
	bt.publish()
	return nil
}

// write puts into the transaction what was only collected so far.
func (bt *batch) write() (changed bool, err error) {
	for _, p := range bt.partitions {
		if err := bt.writeEvents(p); err != nil {
			return false, bt.abort(err)
		}
		if err := bt.indexIDs(p); err != nil {
			return false, bt.abort(err)
		}
	}
	changed = len(bt.partitions) > 0 || len(bt.streams) > 0 || len(bt.groups) > 0
	for _, c := range bt.changes {
		if !c.dirty {
			continue
		}
		changed = true
		if err := bt.writeLedger(c); err != nil {
			return false, bt.abort(err)
		}
	}
	if err := bt.countDeadLetters(); err != nil {
		return false, bt.abort(err)
	}
	return changed, nil
}

// publish shows what is now durable.
func (bt *batch) publish() {
	for name, s := range bt.streams {
		bt.b.streams.Store(name, s)
	}
	for key, g := range bt.groups {
		key.stream.groups.Store(key.name, g)
	}
	for _, p := range bt.partitions {
		p.high.Store(p.ids.last())
		p.staged = stagedEvents{}
	}
	for _, p := range bt.aged {
		p.ids.age()
	}
	for _, c := range bt.changes {
		c.confirm()
	}
	for g, n := range bt.buried {
		g.deadLetters.Add(n)
	}
	for _, f := range bt.after {
		f()
	}
	for _, s := range bt.wakes {
		s.watchers.Wake()
	}
}

// rollBack makes memory what it was before the batch.
func (bt *batch) rollBack() {
	for _, p := range bt.partitions {
		p.ids.retreat(p.high.Load())
		p.staged = stagedEvents{}
	}
	for _, c := range bt.changes {
		c.rollBack()
	}
}
