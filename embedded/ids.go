package embedded

import (
	"sync"

	"go.etcd.io/bbolt"
)

// Which IDs a partition holds is in its index, a bucket, but for those of its last
// events, which are in memory and enter the index many at a time, sorted: a B+tree
// takes them far cheaper so. Opening a store reads the last events again.
//
// An ID greater than all in the index is not looked up there. For the default IDs,
// which begin with the time, that is nearly every one.

// generationSize is how many IDs enter the index together. Twice that many are in
// memory. Partitions of a stream with very many share what all may have.
const (
	maxGeneration   = 4096
	minGeneration   = 128
	generationShare = 64 << 10
)

// idTail holds the IDs of a partition's last events, in two generations: the older
// one is the next to enter the index. Only the committer changes it, under the
// lock; so only others lock to read.
type idTail struct {
	mu         sync.RWMutex
	generation int
	old, young idGeneration
	indexed    int64  // up to here, IDs are in the index
	greatest   string // the greatest ID in the index
	changes    int    // counts what makes an earlier look at it worthless
}

// idGeneration holds IDs of neighbouring events.
type idGeneration struct {
	sequences map[string]int64
	order     []string // by sequence
}

func newIDTail(partitions int) idTail {
	return idTail{
		generation: min(maxGeneration, max(minGeneration, generationShare/partitions)),
		old:        idGeneration{sequences: make(map[string]int64)},
		young:      idGeneration{sequences: make(map[string]int64)},
	}
}

// last is the sequence of the last event, durable or staged.
func (t *idTail) last() int64 { return t.indexed + int64(len(t.old.order)+len(t.young.order)) }

func (t *idTail) find(id string) (sequence int64, found bool) {
	if sequence, found = t.young.sequences[id]; !found {
		sequence, found = t.old.sequences[id]
	}
	return sequence, found
}

// push adds the IDs of the events after last.
func (t *idTail) push(ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sequence := t.last()
	for _, id := range ids {
		sequence++
		t.young.sequences[id] = sequence
	}
	t.young.order = append(t.young.order, ids...)
}

// retreat forgets the IDs of events that were not committed. They are young: the
// generations change only after a commit.
func (t *idTail) retreat(last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keep := len(t.young.order) - int(t.last()-last)
	for _, id := range t.young.order[keep:] {
		delete(t.young.sequences, id)
	}
	clear(t.young.order[keep:])
	t.young.order = t.young.order[:keep]
	t.changes++
}

// age notes that the old generation is in the index.
func (t *idTail) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.old.order {
		t.greatest = max(t.greatest, id)
	}
	t.indexed += int64(len(t.old.order))
	clear(t.old.sequences)
	clear(t.old.order)
	t.old, t.young = t.young, idGeneration{t.old.sequences, t.old.order[:0]}
	t.changes++
}

// idCheck is what a look at a partition's IDs was based on.
type idCheck struct {
	through int64 // all events up to here were looked at, if they were durable
	changes int
	pending bool // one of the IDs belongs to an event that is not durable yet
}

// known looks for IDs among the durable events, and returns their sequences, 0 for
// those that are not held.
func (p *partition) known(db *database, ids []string) (sequences []int64, check idCheck, err error) {
	sequences = make([]int64, len(ids))
	var older []int // indexes of the IDs that may be in the index
	t := &p.ids
	t.mu.RLock()
	check = idCheck{through: t.last(), changes: t.changes}
	high := p.high.Load()
	for i, id := range ids {
		sequence, found := t.find(id)
		switch {
		case found && sequence <= high:
			sequences[i] = sequence
		case found:
			check.pending = true
		case id <= t.greatest && id > string(markKey): // no ID is less
			older = append(older, i)
		}
	}
	t.mu.RUnlock()
	if len(older) == 0 {
		return sequences, check, nil
	}
	err = db.view(func(tx *bbolt.Tx) error {
		for _, i := range older {
			if sequences[i], err = p.indexed(tx, ids[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = p.damagedIndex(db, err)
	}
	return sequences, check, err
}

func (p *partition) damagedIndex(db *database, cause error) error {
	return db.damaged(cause, "the index by ID of stream %q, partition %d", p.stream.name, p.number)
}

// held is known for the committer, which sees what is staged, too. check is what
// known came with: only what is newer has to be looked at.
func (p *partition) held(tx *bbolt.Tx, id string, check idCheck) (int64, error) {
	if sequence, found := p.ids.find(id); found {
		return sequence, nil
	}
	if check.changes == p.ids.changes || id > p.ids.greatest {
		return 0, nil
	}
	return p.indexed(tx, id)
}

// locate returns the sequence of a durable event, or 0.
func (p *partition) locate(db *database, id string) (int64, error) {
	sequences, _, err := p.known(db, []string{id})
	if err != nil {
		return 0, err
	}
	return sequences[0], nil
}

// indexIDs moves the old generation to the index, if the young one has grown up.
func (bt *batch) indexIDs(p *partition) error {
	t := &p.ids
	if len(t.young.order) < t.generation {
		return nil
	}
	bt.aged = append(bt.aged, p)
	if len(t.old.order) == 0 {
		return nil
	}
	bucket, err := bucketOf(bt.tx, p.index)
	if err != nil {
		return p.damagedIndex(bt.b.db, err)
	}
	if err := p.addToIndex(bucket, t.indexed+1, t.old.order); err != nil {
		return err
	}
	return p.writeIndexMark(bucket, t.indexed+int64(len(t.old.order)))
}
