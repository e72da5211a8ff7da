package embedded

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rheo-go/rheo"
	"go.etcd.io/bbolt"
)

// storeID tells stores apart, so that files of two of them are not mixed.
type storeID [16]byte

var storeKey = []byte("store")

// prepareDatabase fills a new database: the format and the store's ID, and the
// buckets.
func prepareDatabase(id storeID) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, streamsBucket, groupsBucket, ledgersBucket, gravesBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		v := binary.AppendUvarint(nil, formatVersion)
		return tx.Bucket(metaBucket).Put(storeKey, seal(metaBucket, storeKey, append(v, id[:]...)))
	}
}

// recovery reads a store into memory.
type recovery struct {
	b       *Backend
	id      storeID
	lastTx  int
	streams map[uint32]*stream
	groups  map[uint32]*group
	turn    uint64 // of the claims log
	behind  bool   // the database lacks claims that were applied
}

// load reads the database and applies the claims. Then it expires every lease,
// since their holders died with the process that had the store open.
func (r *recovery) load() error {
	if err := r.loadDatabase(); err != nil {
		return err
	}
	for _, s := range r.streams {
		for _, p := range s.partitions {
			if err := p.loadIDs(r.b.db); err != nil {
				return err
			}
		}
	}
	if err := r.applyClaims(); err != nil {
		return err
	}
	now := r.b.now().UnixMicro()
	r.b.eachProgress(func(pr *progress) { pr.ledger.ExpireAll(now) })
	return nil
}

func (r *recovery) loadDatabase() error {
	var where string
	err := r.b.db.view(func(tx *bbolt.Tx) error {
		r.lastTx = tx.ID()
		for _, step := range []struct {
			what string
			run  func(*bbolt.Tx) error
		}{
			{"its format", r.readMeta},
			{"its streams", r.readStreams},
			{"its partitions", r.readPartitions},
			{"its groups", r.readGroups},
			{"its ledgers", r.readLedgers},
			{"its dead letters", r.countDeadLetters},
		} {
			where = step.what
			if err := step.run(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return r.b.db.damaged(err, "%s", where)
	}
	return nil
}

func (r *recovery) readMeta(tx *bbolt.Tx) error {
	bucket, err := bucketOf(tx, metaBucket)
	if err != nil {
		return err
	}
	v, err := unseal(metaBucket, storeKey, bucket.Get(storeKey))
	if err != nil {
		return err
	}
	f := fields{b: v}
	version := f.uint()
	if f.bad {
		return errFormat
	}
	if version > formatVersion {
		return errNewer
	}
	copy(r.id[:], f.bytes(uint64(len(r.id))))
	return f.end()
}

// each calls f with every entry of a bucket whose sequence counts them.
func each(tx *bbolt.Tx, name []byte, f func(k, v []byte) error) error {
	bucket, err := bucketOf(tx, name)
	if err != nil {
		return err
	}
	n := uint64(0)
	err = bucket.ForEach(func(k, v []byte) error {
		n++
		return f(k, v)
	})
	if err == nil && n != bucket.Sequence() {
		err = fmt.Errorf("%d of %d are there", n, bucket.Sequence())
	}
	return err
}

func (r *recovery) readStreams(tx *bbolt.Tx) error {
	return each(tx, streamsBucket, func(k, v []byte) error {
		s, err := decodeStream(k, v)
		if err != nil {
			return err
		}
		r.streams[s.number] = s
		r.b.streams.Store(s.name, s)
		return nil
	})
}

func (r *recovery) readPartitions(tx *bbolt.Tx) error {
	for _, s := range r.streams {
		for _, p := range s.partitions {
			if err := p.readEnds(tx); err != nil {
				return fmt.Errorf("stream %q, partition %d: %w", s.name, p.number, err)
			}
		}
	}
	return nil
}

// readEnds finds out where the log and the index of a partition end.
func (p *partition) readEnds(tx *bbolt.Tx) error {
	events, err := bucketOf(tx, p.events)
	if err != nil {
		return err
	}
	last := int64(0)
	if k, v := events.Cursor().Last(); k != nil {
		b, err := parseBlock(p.events, k, v)
		if err != nil {
			return err
		}
		last = b.last
	}
	if uint64(last) != events.Sequence() {
		return fmt.Errorf("its log ends at sequence %d, not %d", last, events.Sequence())
	}
	p.high.Store(last)
	index, err := bucketOf(tx, p.index)
	if err != nil {
		return err
	}
	if err := p.readIndexEnd(index); err != nil {
		return fmt.Errorf("the index by ID: %w", err)
	}
	if p.ids.indexed > last {
		return fmt.Errorf("its index ends at sequence %d, its log at %d", p.ids.indexed, last)
	}
	return nil
}

// loadIDs reads the IDs that are not in the index.
func (p *partition) loadIDs(db *database) error {
	for e, err := range p.walk(db, p.ids.indexed+1, p.high.Load(), false) {
		if err != nil {
			return err
		}
		p.ids.push([]string{strings.Clone(e.ID)})
	}
	return nil
}

func (r *recovery) readGroups(tx *bbolt.Tx) error {
	return each(tx, groupsBucket, func(k, v []byte) error {
		g, err := decodeGroup(k, v, r.streams)
		if err != nil {
			return err
		}
		r.groups[g.number] = g
		g.stream.groups.Store(g.name, g)
		return nil
	})
}

func (r *recovery) readLedgers(tx *bbolt.Tx) error {
	for _, g := range r.groups {
		for p, pr := range g.progress {
			if err := pr.loadLedger(tx); err != nil {
				return fmt.Errorf("group %q of stream %q, partition %d: %w", g.name, g.stream.name, p, err)
			}
		}
	}
	return nil
}

func (r *recovery) countDeadLetters(tx *bbolt.Tx) error {
	return each(tx, gravesBucket, func(k, v []byte) error {
		if _, err := decodeDeadLetter(k, v); err != nil {
			return err
		}
		if r.groups[binary.BigEndian.Uint32(k)] == nil {
			return errFormat
		}
		r.groups[binary.BigEndian.Uint32(k)].deadLetters.Add(1)
		return nil
	})
}

// applyClaims applies the claims that the ledgers in the database lack, those of
// the older file first.
func (r *recovery) applyClaims() error {
	var logs []recoveredLog
	for _, path := range claimsPaths(filepath.Dir(r.b.db.path)) {
		l, err := r.readClaims(path)
		if err != nil {
			return err
		}
		logs = append(logs, l)
		r.turn = max(r.turn, l.turn)
	}
	slices.SortFunc(logs, func(a, b recoveredLog) int { return cmp.Compare(a.turn, b.turn) })
	lost := make(map[*progress]bool)
	for _, l := range logs {
		for rest := l.records; ; {
			body, after, whole := nextRecord(rest)
			if !whole || !r.apply(body, lost) {
				break // a power loss may have torn the file anywhere
			}
			rest = after
		}
	}
	return nil
}

// apply applies a record, or returns false if it makes no sense. If a ledger's
// claims do not continue each other, a power loss took some of them; the later
// ones are lost, too.
func (r *recovery) apply(body []byte, lost map[*progress]bool) bool {
	c, err := decodeClaim(body)
	if err != nil || r.groups[c.group] == nil {
		return false
	}
	pr := r.groups[c.group].progress[c.partition]
	if pr == nil {
		return false
	}
	if c.version <= pr.version || lost[pr] {
		return true
	}
	if c.restore(pr.ledger) != nil {
		lost[pr] = true
		return true
	}
	pr.version = c.version
	r.behind = true
	return true
}

// recoveredLog is a claims file as it was found.
type recoveredLog struct {
	turn    uint64
	records []byte
}

func (r *recovery) readClaims(path string) (recoveredLog, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return recoveredLog{}, nil
	}
	if err != nil {
		return recoveredLog{}, rheo.WrapError(rheo.ErrUnavailable, err, "opening %s", path)
	}
	if len(b) < claimsHeader || string(b[:len(claimsMagic)]) != claimsMagic {
		return recoveredLog{}, nil
	}
	f := fields{b: b[len(claimsMagic):]}
	version := binary.LittleEndian.Uint32(f.bytes(4))
	id := storeID(f.bytes(uint64(len(storeID{}))))
	l := recoveredLog{turn: binary.LittleEndian.Uint64(f.bytes(8))}
	last := binary.LittleEndian.Uint64(f.bytes(8))
	if binary.LittleEndian.Uint32(f.bytes(4)) != crc32.Checksum(b[:claimsHeader-4], castagnoli) {
		return recoveredLog{}, nil
	}
	if version > claimsVersion {
		return recoveredLog{}, rheo.WrapError(rheo.ErrFailed, errNewer, "%s has format %d, and this release reads up to %d", path, version, claimsVersion)
	}
	if id != r.id || last > uint64(r.lastTx) {
		return recoveredLog{}, rheo.Errorf(rheo.ErrFailed,
			"%s does not belong to %s, which is another store's or older; if it was restored from a backup, delete %s (events fetched since may then be delivered once more)",
			path, r.b.db.path, filepath.Base(path))
	}
	l.records = f.b
	return l, nil
}
