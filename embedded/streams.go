package embedded

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/wake"
	"go.etcd.io/bbolt"
)

// The buckets of the database. Those of partitions and groups are named by a
// letter and numbers. All lie at the top. What bbolt calls a bucket's sequence is used
// to miss a key that was lost to a damaged page:
//
//	meta                      format, store: see recovery.go
//	streams                   name → number, partitions, created; how many there are
//	groups                    stream, name → see groups.go; how many there are
//	ledgers                   group, partition → version, ledger
//	deadletters               group, partition, sequence → dead letter; how many
//	e stream partition        sequence → block; the last sequence
//	i stream partition        IDs and their sequences: see idindex.go
var (
	metaBucket    = []byte("meta")
	streamsBucket = []byte("streams")
	groupsBucket  = []byte("groups")
	ledgersBucket = []byte("ledgers")
	gravesBucket  = []byte("deadletters")
)

const (
	eventsLetter = 'e'
	idsLetter    = 'i'
)

func bucketName(letter byte, numbers ...uint32) []byte {
	name := []byte{letter}
	for _, n := range numbers {
		name = binary.BigEndian.AppendUint32(name, n)
	}
	return name
}

type stream struct {
	number     uint32
	name       string
	createdAt  time.Time
	partitions []*partition
	groups     sync.Map // name → *group
	watchers   wake.Hub
}

// partition is one part of a log.
type partition struct {
	stream *stream
	number int
	events []byte // names of its buckets
	index  []byte
	high   atomic.Int64 // the last sequence that is durable, and so may be seen
	ids    idTail
	staged stagedEvents // belongs to the committer
}

func newStream(number uint32, name string, partitions int, createdAt time.Time) *stream {
	s := &stream{number: number, name: name, createdAt: createdAt}
	for n := range partitions {
		s.partitions = append(s.partitions, &partition{
			stream: s,
			number: n,
			events: bucketName(eventsLetter, number, uint32(n)),
			index:  bucketName(idsLetter, number, uint32(n)),
			ids:    newIDTail(partitions),
		})
	}
	return s
}

func (s *stream) info() rheo.StreamInfo {
	info := rheo.StreamInfo{Name: s.name, Partitions: len(s.partitions), CreatedAt: s.createdAt}
	for _, p := range s.partitions {
		info.HighWatermarks = append(info.HighWatermarks, p.high.Load())
	}
	return info
}

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	now := b.now()
	return b.committer.do(ctx, 0, func(bt *batch) error {
		if _, taken := b.streams.Load(name); taken || bt.streams[name] != nil {
			return rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name)
		}
		return bt.createStream(name, config, now)
	})
}

func (bt *batch) createStream(name string, config rheo.StreamConfig, now time.Time) error {
	catalog := bt.tx.Bucket(streamsBucket)
	number, err := catalog.NextSequence()
	if err != nil {
		return bt.abort(err)
	}
	s := newStream(uint32(number), name, config.Partitions, now)
	if err := catalog.Put([]byte(name), s.encode()); err != nil {
		return bt.abort(err)
	}
	for _, p := range s.partitions {
		if err := p.create(bt.tx); err != nil {
			return bt.abort(err)
		}
	}
	bt.streams[name] = s
	return nil
}

func (p *partition) create(tx *bbolt.Tx) error {
	if _, err := tx.CreateBucket(p.events); err != nil {
		return err
	}
	index, err := tx.CreateBucket(p.index)
	if err != nil {
		return err
	}
	return p.writeIndexMark(index, 0)
}

func (s *stream) encode() []byte {
	v := binary.AppendUvarint(nil, uint64(s.number))
	v = binary.AppendUvarint(v, uint64(len(s.partitions)))
	v = binary.AppendVarint(v, s.createdAt.UnixMicro())
	return seal(streamsBucket, []byte(s.name), v)
}

func decodeStream(name, sealed []byte) (*stream, error) {
	v, err := unseal(streamsBucket, name, sealed)
	if err != nil {
		return nil, err
	}
	f := fields{b: v}
	number, partitions, created := f.uint(), f.uint(), f.int()
	if err := f.end(); err != nil {
		return nil, err
	}
	return newStream(uint32(number), string(name), int(partitions), timeOf(created)), nil
}

// bucketOf returns a bucket that must be there.
func bucketOf(tx *bbolt.Tx, name []byte) (*bbolt.Bucket, error) {
	if b := tx.Bucket(name); b != nil {
		return b, nil
	}
	return nil, errMissing
}
