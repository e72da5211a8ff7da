package embedded

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// The index by ID holds entries, an ID and its sequence, in leaves: each is one
// value of up to about maxIDLeaf bytes, the entries in it ascending, under the
// greatest of its IDs as the key. So a seek of an ID leads to the only leaf that may
// have it. Two leaves fill a page of the database, which has many times fewer keys
// to move about than if it had one for each ID.
//
// A leaf begins with the key of the leaf before it, or nothing: it holds whatever
// IDs there are between the two, so a seek that a damaged page led astray is
// noticed. An entry is the ID and the sequence. A string has its length before it;
// numbers are uvarints.
//
// Under markKey, which is no ID, is up to which sequence IDs are in the index.
const maxIDLeaf = 2<<10 - 64

var markKey = []byte{0}

type idEntry struct {
	id       []byte
	sequence uint64
}

// idLeaf is a leaf, the parts of which are parts of its value.
type idLeaf struct {
	after []byte
	rest  fields // the entries
}

func openIDLeaf(bucket, key, sealed []byte) (idLeaf, error) {
	v, err := unseal(bucket, key, sealed)
	if err != nil {
		return idLeaf{}, err
	}
	l := idLeaf{rest: fields{b: v}}
	l.after = l.rest.bytes(l.rest.uint())
	return l, nil
}

// next returns the next entry, or false if there is none.
func (l *idLeaf) next() (e idEntry, ok bool) {
	if len(l.rest.b) == 0 {
		return idEntry{}, false
	}
	e = idEntry{id: l.rest.bytes(l.rest.uint()), sequence: l.rest.uint()}
	return e, !l.rest.bad
}

// indexed returns the sequence under which the index holds an ID, or 0. The ID must
// not be greater than what was the greatest when the transaction began: so there is
// a leaf for it.
func (p *partition) indexed(tx *bbolt.Tx, id string) (int64, error) {
	bucket, err := bucketOf(tx, p.index)
	if err != nil {
		return 0, err
	}
	key, sealed := bucket.Cursor().Seek([]byte(id))
	if key == nil {
		return 0, errMissing
	}
	leaf, err := openIDLeaf(p.index, key, sealed)
	if err != nil {
		return 0, err
	}
	if id <= string(leaf.after) {
		return 0, errMissing
	}
	for {
		e, ok := leaf.next()
		if !ok {
			return 0, leaf.rest.end()
		}
		if string(e.id) == id {
			return int64(e.sequence), nil
		}
	}
}

// readIndexEnd reads up to which sequence the IDs are in the index, and the
// greatest.
func (p *partition) readIndexEnd(bucket *bbolt.Bucket) error {
	sealed := bucket.Get(markKey)
	if sealed == nil {
		return errMissing
	}
	v, err := unseal(p.index, markKey, sealed)
	if err != nil {
		return err
	}
	f := fields{b: v}
	p.ids.indexed = int64(f.uint())
	if err := f.end(); err != nil {
		return err
	}
	key, sealed := bucket.Cursor().Last()
	if bytes.Equal(key, markKey) {
		if p.ids.indexed > 0 {
			return errMissing
		}
		return nil
	}
	if _, err := openIDLeaf(p.index, key, sealed); err != nil {
		return err
	}
	p.ids.greatest = string(key)
	return nil
}

func (p *partition) writeIndexMark(bucket *bbolt.Bucket, sequence int64) error {
	return bucket.Put(markKey, seal(p.index, markKey, binary.AppendUvarint(nil, uint64(sequence))))
}

// addToIndex adds IDs of neighbouring events, none of which is there.
func (p *partition) addToIndex(bucket *bbolt.Bucket, first int64, ids []string) error {
	entries := make([]idEntry, len(ids))
	for i, id := range ids {
		entries[i] = idEntry{[]byte(id), uint64(first) + uint64(i)}
	}
	if !slices.IsSortedFunc(ids, strings.Compare) {
		slices.SortFunc(entries, func(a, b idEntry) int { return bytes.Compare(a.id, b.id) })
	}
	if string(entries[0].id) > p.ids.greatest {
		bucket.FillPercent = 1
	}
	for len(entries) > 0 {
		n, err := p.addToLeaf(bucket, entries)
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// addToLeaf adds the first of the entries, as many as belong in one leaf, and
// returns how many.
func (p *partition) addToLeaf(bucket *bbolt.Bucket, entries []idEntry) (n int, err error) {
	key, sealed := bucket.Cursor().Seek(entries[0].id)
	if key == nil {
		return len(entries), p.putLeaves(bucket, []byte(p.ids.greatest), entries)
	}
	leaf, err := openIDLeaf(p.index, key, sealed)
	if err != nil {
		return 0, err
	}
	if bytes.Compare(entries[0].id, leaf.after) <= 0 {
		return 0, errMissing
	}
	for n < len(entries) && bytes.Compare(entries[n].id, key) < 0 {
		n++
	}
	merged, err := leaf.merge(entries[:n])
	if err != nil {
		return 0, err
	}
	return n, p.putLeaves(bucket, leaf.after, merged)
}

// merge returns the leaf's entries and those to add. One that is there already is
// an error: it would be a second event of the ID.
func (l *idLeaf) merge(add []idEntry) ([]idEntry, error) {
	const typical = 40
	merged := make([]idEntry, 0, len(add)+len(l.rest.b)/typical+1)
	for {
		e, ok := l.next()
		if !ok {
			break
		}
		for len(add) > 0 && bytes.Compare(add[0].id, e.id) < 0 {
			merged, add = append(merged, add[0]), add[1:]
		}
		merged = append(merged, e)
	}
	if len(add) > 0 {
		return nil, errFormat
	}
	return merged, l.rest.end()
}

// putLeaves writes entries as one leaf, or as several that are about equally full.
// The last has the key that the entries were under before, if they were.
func (p *partition) putLeaves(bucket *bbolt.Bucket, after []byte, entries []idEntry) error {
	size := 0
	for i := range entries {
		size += entrySize(&entries[i])
	}
	leaves := (size + maxIDLeaf - 1) / maxIDLeaf
	share := (size + leaves - 1) / leaves
	var leaf []byte
	for i := range entries {
		if leaf == nil {
			leaf = make([]byte, 0, maxIDLeaf+sealSize)
			leaf = append(binary.AppendUvarint(leaf, uint64(len(after))), after...)
		}
		leaf = binary.AppendUvarint(leaf, uint64(len(entries[i].id)))
		leaf = append(leaf, entries[i].id...)
		leaf = binary.AppendUvarint(leaf, entries[i].sequence)
		if len(leaf) < share && i < len(entries)-1 {
			continue
		}
		key := bytes.Clone(entries[i].id)
		if err := bucket.Put(key, seal(p.index, key, leaf)); err != nil {
			return err
		}
		after, leaf = key, nil
	}
	return nil
}

func entrySize(e *idEntry) int {
	const numbers = 6
	return len(e.id) + numbers
}
