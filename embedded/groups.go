package embedded

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

type group struct {
	number      uint32
	stream      *stream
	name        string
	config      rheo.GroupConfig
	plan        delivery.Group
	createdAt   time.Time
	deadLetters atomic.Int64 // in the database
	turn        atomic.Uint64
	progress    map[int]*progress // by partition; the map itself never changes
}

// newGroup returns a group whose ledgers begin behind starts, by partition.
func newGroup(number uint32, s *stream, name string, config rheo.GroupConfig, starts map[int]int64, createdAt time.Time) *group {
	config.Start = rheo.Start{}
	config.Partitions = slices.Clone(config.Partitions)
	g := &group{
		number: number, stream: s, name: name, config: config,
		plan: delivery.GroupOf(config), createdAt: createdAt,
		progress: make(map[int]*progress, len(config.Partitions)),
	}
	for _, p := range config.Partitions {
		g.progress[p] = &progress{
			group: g, partition: s.partitions[p], key: ledgerKey(number, p),
			start: starts[p], ledger: ledger.New(starts[p]),
		}
	}
	return g
}

const ledgerKeySize = 8

func ledgerKey(group uint32, partition int) []byte {
	key := binary.BigEndian.AppendUint32(make([]byte, 0, ledgerKeySize+sequenceSize), group)
	return binary.BigEndian.AppendUint32(key, uint32(partition))
}

// groupRecordKey is the key of a group in the bucket of groups.
func groupRecordKey(s *stream, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, s.number), name...)
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, stream, name string, config rheo.GroupConfig) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	s, err := b.stream(stream)
	if err != nil {
		return err
	}
	starts := make(map[int]int64, len(config.Partitions))
	for _, p := range config.Partitions {
		if starts[p], err = b.startCursor(ctx, s.partitions[p], config.Start); err != nil {
			return err
		}
	}
	now := b.now()
	return b.committer.do(ctx, 0, func(bt *batch) error {
		key := groupKey{s, name}
		if _, taken := s.groups.Load(name); taken || bt.groups[key] != nil {
			return rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, stream)
		}
		return bt.createGroup(key, config, starts, now)
	})
}

func (b *Backend) startCursor(ctx context.Context, p *partition, start rheo.Start) (int64, error) {
	return delivery.StartCursor(ctx, start, p.number, p.high.Load(), func(ctx context.Context, _ int) (int64, error) {
		return p.seekTime(ctx, b.db, start.Time)
	})
}

func (bt *batch) createGroup(key groupKey, config rheo.GroupConfig, starts map[int]int64, now time.Time) error {
	catalog := bt.tx.Bucket(groupsBucket)
	number, err := catalog.NextSequence()
	if err != nil {
		return bt.abort(err)
	}
	g := newGroup(uint32(number), key.stream, key.name, config, starts, now)
	record := groupRecordKey(key.stream, key.name)
	if err := catalog.Put(record, seal(groupsBucket, record, g.encode())); err != nil {
		return bt.abort(err)
	}
	for _, p := range g.config.Partitions {
		bt.changeOf(g.progress[p]).dirty = true
	}
	bt.groups[key] = g
	return nil
}

// encode returns the group's record: number, created, attempts, whether ordered,
// and the partitions with their starts.
func (g *group) encode() []byte {
	v := binary.AppendUvarint(nil, uint64(g.number))
	v = binary.AppendVarint(v, g.createdAt.UnixMicro())
	v = binary.AppendUvarint(v, uint64(g.config.MaxAttempts))
	v = appendString(v, string(g.config.Ordering))
	v = binary.AppendUvarint(v, uint64(len(g.config.Partitions)))
	for _, p := range g.config.Partitions {
		v = binary.AppendUvarint(v, uint64(p))
		v = binary.AppendUvarint(v, uint64(g.progress[p].start))
	}
	return v
}

// decodeGroup reads a record; streams are all there are, by number.
func decodeGroup(key, sealed []byte, streams map[uint32]*stream) (*group, error) {
	v, err := unseal(groupsBucket, key, sealed)
	if err != nil {
		return nil, err
	}
	k, f := fields{b: key}, fields{b: v}
	streamNumber := k.bytes(4)
	if k.bad || streams[binary.BigEndian.Uint32(streamNumber)] == nil {
		return nil, errFormat
	}
	s := streams[binary.BigEndian.Uint32(streamNumber)]
	number, created := f.uint(), f.int()
	config := rheo.GroupConfig{MaxAttempts: int(f.uint()), Ordering: rheo.Ordering(f.string())}
	starts := make(map[int]int64)
	for range f.uint() {
		p, start := f.uint(), f.uint()
		if f.bad || p >= uint64(len(s.partitions)) {
			return nil, errFormat
		}
		config.Partitions = append(config.Partitions, int(p))
		starts[int(p)] = int64(start)
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	return newGroup(uint32(number), s, string(k.b), config, starts, timeOf(created)), nil
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, stream string) ([]string, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	s, err := b.stream(stream)
	if err != nil {
		return nil, err
	}
	var names []string
	s.groups.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names, nil
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, stream, name string) (rheo.GroupInfo, error) {
	if err := b.enter(ctx); err != nil {
		return rheo.GroupInfo{}, err
	}
	defer b.leave()
	g, err := b.group(stream, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	info := rheo.GroupInfo{
		Stream: stream, Group: name, CreatedAt: g.createdAt,
		MaxAttempts: g.config.MaxAttempts, Ordering: g.config.Ordering,
		DeadLetters: g.deadLetters.Load(),
	}
	now := b.now()
	for _, p := range g.config.Partitions {
		partition, err := g.progress[p].describe(b.db, now)
		if err != nil {
			return rheo.GroupInfo{}, err
		}
		info.Partitions = append(info.Partitions, partition)
	}
	return info, nil
}

// describe is info with the age of the oldest event that is open.
func (pr *progress) describe(db *database, now time.Time) (rheo.PartitionInfo, error) {
	info := pr.info(now)
	if info.Lag <= 0 {
		return info, nil
	}
	oldest, err := pr.partition.load(db, nil, info.Frontier+1, info.Frontier+1)
	if err != nil {
		return info, err
	}
	info.OldestUnacked = max(0, now.Sub(oldest[0].Timestamp))
	return info, nil
}
