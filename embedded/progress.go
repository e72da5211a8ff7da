package embedded

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
	"go.etcd.io/bbolt"
)

// progress is how far a group is in one partition.
//
// The ledger in memory is ahead of the one in the database in two ways. Claims
// change it at once, and are kept in the claims log; the database gets them with
// the next change that is synced. And what the committer applies, most of all
// settlements, is there from the moment it is staged, while its commit is still
// under way: that is the ledger's window. A fetch in the window builds on what may
// yet fail. That is sound because the window can be taken back: rolling back goes
// to the ledger as it was before, and applies again what fetches and renewals did
// in between, as effects, not as requests. A lease that a fetch in the window gave
// stays good so, whatever becomes of the commit; a settlement that failed is
// undone, and its lease held again, unless another fetch has taken the event; and
// attempts only go up. The same holds for a process that dies in the window: the
// claims log has the effects, and the database the ledger before.
//
// Where building on the window would break a promise, it is closed to fetches and
// renewals until the commit has ended: after a replay or reset, which must happen
// as a whole, and in an ordered group, which must not offer a batch while the one
// before may come back.
type progress struct {
	group     *group
	partition *partition
	key       []byte // in the bucket of ledgers
	start     int64  // the cursor it was created with

	mu      sync.Mutex // never held over I/O
	ledger  *ledger.Ledger
	version uint64 // goes up with every change but renewals
	durable uint64 // the version in the database
	// dead are the dead letters that are not in the database yet.
	dead   []deadLetter
	window *window
	shut   chan struct{} // if not nil, closed when the window is
	change *change       // of the batch under way; belongs to the committer
}

// window is open while a commit that changes the ledger is under way.
type window struct {
	before *ledger.Ledger
	dead   int                    // how many of progress.dead there were before
	since  []func(*ledger.Ledger) // what fetches and renewals have done since
}

// rebuilt returns the ledger as it would be without the commit under way.
func (w *window) rebuilt() *ledger.Ledger {
	l := w.before.Clone()
	for _, apply := range w.since {
		apply(l)
	}
	return l
}

// acquire locks the progress for a fetch or renewal, as soon as they may have it.
func (pr *progress) acquire(ctx context.Context) error {
	pr.mu.Lock()
	for pr.shut != nil {
		shut := pr.shut
		pr.mu.Unlock()
		select {
		case <-shut:
		case <-ctx.Done():
			return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended while waiting for a write")
		}
		pr.mu.Lock()
	}
	return nil
}

// did notes an effect that a fetch or renewal has had, for the case that the
// window is taken back. The caller holds mu.
func (pr *progress) did(apply func(*ledger.Ledger)) {
	if pr.window != nil {
		pr.window.since = append(pr.window.since, apply)
	}
}

// info describes the progress, without what is not durable yet.
func (pr *progress) info(now time.Time) rheo.PartitionInfo {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	l := pr.ledger
	if pr.window != nil {
		l = pr.window.rebuilt()
	}
	return delivery.PartitionInfo(pr.partition.number, l, pr.partition.high.Load(), 0, now)
}

// change is what a batch does to a progress.
type change struct {
	pr      *progress
	dirty   bool   // the ledger is to be written
	version uint64 // as written
	dead    int    // how many of pr.dead are in the transaction
}

// changeOf returns the batch's change of a progress, to begin with an empty one.
func (bt *batch) changeOf(pr *progress) *change {
	if pr.change == nil {
		pr.change = &change{pr: pr}
		bt.changes = append(bt.changes, pr.change)
	}
	return pr.change
}

// open opens the window, unless it is, and shuts fetches and renewals out if
// asked to. The caller holds pr.mu.
func (c *change) open(shut bool) {
	pr := c.pr
	if pr.window == nil {
		pr.window = &window{before: pr.ledger.Clone(), dead: len(pr.dead)}
	}
	if shut && pr.shut == nil {
		pr.shut = make(chan struct{})
	}
}

// changed notes that the ledger has changed and is to be written. The caller holds
// pr.mu.
func (c *change) changed() {
	c.dirty = true
	c.pr.version++
}

// close closes the window and ends the change. The caller holds pr.mu.
func (c *change) close() {
	c.pr.window, c.pr.change = nil, nil
	if c.pr.shut != nil {
		close(c.pr.shut)
		c.pr.shut = nil
	}
}

// confirm makes what was written final.
func (c *change) confirm() {
	pr := c.pr
	pr.mu.Lock()
	defer pr.mu.Unlock()
	c.close()
	if c.dirty {
		pr.durable = c.version
		if pr.dead = pr.dead[c.dead:]; len(pr.dead) == 0 {
			pr.dead = nil
		}
	}
}

// rollBack takes the window back, if there is one. The version goes on: claims of
// the window are in their log under the ones it had. Dead letters that fetches
// added go, too: the effects of a fetch that are applied again leave their
// deliveries open, for the next fetch to reject.
func (c *change) rollBack() {
	pr := c.pr
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.window != nil {
		pr.ledger = pr.window.rebuilt()
		pr.dead = pr.dead[:pr.window.dead]
		pr.version++
	}
	c.close()
}

// writeLedger puts the ledger as it is now, and the dead letters that go with it,
// into the transaction.
func (bt *batch) writeLedger(c *change) error {
	pr := c.pr
	value, dead := c.snapshot()
	if err := bt.bury(pr, dead); err != nil {
		return err
	}
	bucket, err := bucketOf(bt.tx, ledgersBucket)
	if err != nil {
		return err
	}
	return bucket.Put(pr.key, value)
}

// snapshot encodes the ledger, and returns the dead letters that are not in the
// transaction yet.
func (c *change) snapshot() (value []byte, dead []deadLetter) {
	pr := c.pr
	pr.mu.Lock()
	defer pr.mu.Unlock()
	c.version = pr.version
	dead = pr.dead[c.dead:]
	c.dead = len(pr.dead)
	return encodeLedger(pr.key, pr.version, pr.ledger), dead
}

func encodeLedger(key []byte, version uint64, l *ledger.Ledger) []byte {
	const typical = 128
	v := binary.AppendUvarint(make([]byte, 0, typical), version)
	v, _ = l.AppendBinary(v) // it never fails
	return seal(ledgersBucket, key, v)
}

// loadLedger reads the ledger from the database.
func (pr *progress) loadLedger(tx *bbolt.Tx) error {
	bucket, err := bucketOf(tx, ledgersBucket)
	if err != nil {
		return err
	}
	sealed := bucket.Get(pr.key)
	if sealed == nil {
		return errMissing
	}
	v, err := unseal(ledgersBucket, pr.key, sealed)
	if err != nil {
		return err
	}
	f := fields{b: v}
	pr.version = f.uint()
	if f.bad {
		return errFormat
	}
	pr.durable = pr.version
	pr.ledger = &ledger.Ledger{}
	return pr.ledger.UnmarshalBinary(f.b)
}
