package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
	"go.etcd.io/bbolt"
)

// deadLetter is a rejected delivery; the event itself is in the log.
type deadLetter struct {
	sequence int64
	attempts int
	reason   string
	at       time.Time
}

// bury notes the dead letters of what a ledger has rejected, for the next commit to
// write. The caller holds mu.
func (pr *progress) bury(dead []ledger.Dead, now time.Time) {
	for _, d := range dead {
		for sequence := d.From; sequence <= d.To; sequence++ {
			pr.dead = append(pr.dead, deadLetter{sequence, d.Attempts, d.Reason, now})
		}
	}
}

// deadLetterKey begins with the key of the ledger.
func deadLetterKey(group uint32, partition int, sequence int64) []byte {
	return binary.BigEndian.AppendUint64(ledgerKey(group, partition), uint64(sequence))
}

func (d *deadLetter) encode() []byte {
	v := binary.AppendUvarint(nil, uint64(d.attempts))
	v = binary.AppendVarint(v, d.at.UnixMicro())
	return append(v, d.reason...)
}

func decodeDeadLetter(key, sealed []byte) (d deadLetter, err error) {
	v, err := unseal(gravesBucket, key, sealed)
	if err != nil {
		return deadLetter{}, err
	}
	f := fields{b: v}
	d.attempts, d.at = int(f.uint()), timeOf(f.int())
	d.reason = string(f.b)
	if f.bad || len(key) != ledgerKeySize+sequenceSize {
		return deadLetter{}, errFormat
	}
	d.sequence = int64(binary.BigEndian.Uint64(key[ledgerKeySize:]))
	return d, nil
}

// bury writes dead letters.
func (bt *batch) bury(pr *progress, dead []deadLetter) error {
	if len(dead) == 0 {
		return nil
	}
	bucket, err := bucketOf(bt.tx, gravesBucket)
	if err != nil {
		return err
	}
	for i := range dead {
		key := deadLetterKey(pr.group.number, pr.partition.number, dead[i].sequence)
		if bucket.Get(key) == nil {
			bt.buried[pr.group]++
		}
		if err := bucket.Put(key, seal(gravesBucket, key, dead[i].encode())); err != nil {
			return err
		}
	}
	return nil
}

// exhume deletes the dead letters of what a replay has opened, those included that
// the batch is about to write.
func (bt *batch) exhume(c *change, r delivery.Reopened) error {
	pr := c.pr
	pr.mu.Lock()
	dead := pr.dead[c.dead:]
	c.dead = len(pr.dead)
	pr.mu.Unlock()
	if err := bt.bury(pr, dead); err != nil {
		return err
	}
	bucket, err := bucketOf(bt.tx, gravesBucket)
	if err != nil {
		return err
	}
	keys, err := pr.graves(bucket, r)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := bucket.Delete(key); err != nil {
			return err
		}
		bt.buried[pr.group]--
	}
	return nil
}

// graves returns the keys of the dead letters among what was opened.
func (pr *progress) graves(bucket *bbolt.Bucket, r delivery.Reopened) ([][]byte, error) {
	var keys [][]byte
	g, p := pr.group.number, pr.partition.number
	if r.From == 0 {
		for _, sequence := range r.Sequences {
			if key := deadLetterKey(g, p, sequence); bucket.Get(key) != nil {
				keys = append(keys, key)
			}
		}
		return keys, nil
	}
	cursor := bucket.Cursor()
	k, _, err := seek(cursor, deadLetterKey(g, p, r.From))
	for ; bytes.HasPrefix(k, pr.key); k, _ = cursor.Next() {
		keys = append(keys, slices.Clone(k))
	}
	return keys, err
}

// seek is cursor.Seek, where nothing else tells that a damaged page led it astray:
// then it comes to a key that is not the first from the target on.
func seek(cursor *bbolt.Cursor, target []byte) (k, v []byte, err error) {
	found, _ := cursor.Seek(target)
	var before []byte
	if found == nil {
		before, _ = cursor.Last()
	} else {
		before, _ = cursor.Prev()
	}
	if before == nil || bytes.Compare(before, target) >= 0 {
		return walkTo(cursor, target, found)
	}
	k, v = cursor.Next()
	return k, v, behind(k, target, found)
}

// walkTo goes to the target from the beginning: bbolt goes no further back than to
// a page whose keys were all deleted in the same transaction.
func walkTo(cursor *bbolt.Cursor, target, found []byte) (k, v []byte, err error) {
	for k, v = cursor.First(); k != nil && bytes.Compare(k, target) < 0; k, v = cursor.Next() {
	}
	return k, v, behind(k, target, found)
}

// behind checks that k is what was found, and not before the target.
func behind(k, target, found []byte) error {
	if !bytes.Equal(k, found) || k != nil && bytes.Compare(k, target) < 0 {
		return errMissing
	}
	return nil
}

// countDeadLetters keeps the number of dead letters with them.
func (bt *batch) countDeadLetters() error {
	var more int64
	for _, n := range bt.buried {
		more += n
	}
	if more == 0 {
		return nil
	}
	bucket, err := bucketOf(bt.tx, gravesBucket)
	if err != nil {
		return err
	}
	return bucket.SetSequence(bucket.Sequence() + uint64(more))
}

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	if err := b.enter(ctx); err != nil {
		return rheo.DeadLetterPage{}, err
	}
	defer b.leave()
	g, err := b.group(r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	for _, p := range g.config.Partitions {
		found, err := g.deadAfter(b.db, p, page.Next.After[p], r.Limit+1-len(page.DeadLetters))
		if err != nil {
			return rheo.DeadLetterPage{}, err
		}
		for i := range found {
			if len(page.DeadLetters) == r.Limit {
				page.More = true
				return page, nil
			}
			d, err := g.describe(b.db, p, &found[i])
			if err != nil {
				return rheo.DeadLetterPage{}, err
			}
			page.DeadLetters = append(page.DeadLetters, d)
			page.Next.After[p] = d.Sequence
		}
	}
	return page, nil
}

// deadAfter returns up to limit dead letters of a partition behind the sequence.
func (g *group) deadAfter(db *database, partition int, sequence int64, limit int) ([]deadLetter, error) {
	var found []deadLetter
	err := db.view(func(tx *bbolt.Tx) error {
		bucket, err := bucketOf(tx, gravesBucket)
		if err != nil {
			return err
		}
		cursor, own := bucket.Cursor(), ledgerKey(g.number, partition)
		k, v, err := seek(cursor, deadLetterKey(g.number, partition, sequence+1))
		if err != nil {
			return err
		}
		for ; bytes.HasPrefix(k, own) && len(found) < limit; k, v = cursor.Next() {
			d, err := decodeDeadLetter(k, v)
			if err != nil {
				return err
			}
			found = append(found, d)
		}
		return nil
	})
	if err != nil {
		return nil, db.damaged(err, "the dead letters of group %q of stream %q", g.name, g.stream.name)
	}
	return found, nil
}

func (g *group) describe(db *database, partition int, d *deadLetter) (rheo.DeadLetter, error) {
	events, err := g.stream.partitions[partition].load(db, nil, d.sequence, d.sequence)
	if err != nil {
		return rheo.DeadLetter{}, err
	}
	return rheo.DeadLetter{
		EventID: events[0].ID, Partition: partition, Sequence: d.sequence, Attempts: d.attempts,
		Reason: d.reason, DeadLetteredAt: d.at, Event: events[0],
	}, nil
}
