package redis

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

var (
	joinScript    = load("join")
	seekScript    = load("seek")
	infoScript    = load("info")
	expiredScript = load("expired")
)

// group is what never changes of a group, remembered.
type group struct {
	stream *stream
	name   string
	record groupRecord
	plan   delivery.Group
	keys   map[int]*groupKeys // by partition; the map itself never changes
	turn   atomic.Uint64
}

type groupKey struct{ stream, group string }

// groupRecord is a group's entry in the hash of its stream's.
type groupRecord struct {
	Partitions  []int         `json:"partitions"`
	Starts      []int64       `json:"starts"` // resolved, by place in Partitions
	MaxAttempts int           `json:"max_attempts"`
	Ordering    rheo.Ordering `json:"ordering"`
	CreatedAt   int64         `json:"created_at"` // µs
	// Ready is set once every partition has its part of the group.
	Ready bool `json:"ready"`
}

func groupNotFound(stream, name string) error {
	return rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, stream)
}

// group returns the group of that name, asking Redis the first time. One whose
// creator died half-way is completed: where it starts was decided.
func (b *Backend) group(ctx context.Context, streamName, name string) (*group, error) {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	if found, ok := b.groups.Load(groupKey{streamName, name}); ok && found.(*group).stream == s {
		return found.(*group), nil
	}
	encoded, err := b.registered(ctx, b.groupsKey(streamName), name)
	if err != nil {
		return nil, err
	}
	if encoded == "" {
		return nil, b.noGroup(ctx, s, name)
	}
	var record groupRecord
	if err := json.Unmarshal([]byte(encoded), &record); err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "the entry of group %q in %s cannot be read", name, b.groupsKey(streamName))
	}
	g := newGroup(s, name, record)
	if !record.Ready {
		if err := b.join(ctx, g); err != nil {
			return nil, err
		}
	}
	b.groups.Store(groupKey{streamName, name}, g)
	return g, nil
}

// noGroup tells a group that is not there from a stream that is no longer there.
func (b *Backend) noGroup(ctx context.Context, s *stream, name string) error {
	if _, err := b.describe(ctx, s); err != nil {
		return err
	}
	return groupNotFound(s.name, name)
}

func newGroup(s *stream, name string, record groupRecord) *group {
	g := &group{stream: s, name: name, record: record, keys: make(map[int]*groupKeys, len(record.Partitions))}
	g.plan = delivery.Group{
		Partitions: record.Partitions, MaxAttempts: record.MaxAttempts, Ordered: record.Ordering == rheo.OrderingPartition,
	}
	g.turn.Store(rand.Uint64N(1 << 32)) // processes that start together go different ways
	for _, p := range record.Partitions {
		keys := s.keys[p].of(name)
		g.keys[p] = &keys
	}
	return g
}

// settings are a script's arguments to make the group's part of a partition.
func (g *group) settings(start int64) []any {
	ordered := "0"
	if g.plan.Ordered {
		ordered = "1"
	}
	return []any{g.name, formatInt(start), formatInt(int64(g.plan.MaxAttempts)), ordered}
}

// join makes the group's part of each partition, and then notes that they are there.
func (b *Backend) join(ctx context.Context, g *group) error {
	calls := make([]*call, len(g.record.Partitions))
	for i, p := range g.record.Partitions {
		k := g.keys[p]
		calls[i] = b.call(joinScript, []string{k.meta, k.log, k.state}, g.settings(g.record.Starts[i])...)
	}
	if _, err := b.onStream(ctx, writing, g.stream, calls...); err != nil {
		return err
	}
	g.record.Ready = true
	encoded, err := json.Marshal(g.record)
	if err != nil {
		return err
	}
	_, err = ask(ctx, b, func() (int64, error) {
		return b.client.HSet(ctx, b.groupsKey(g.stream.name), g.name, encoded).Result()
	})
	return err
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, streamName, name string, config rheo.GroupConfig) error {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return err
	}
	starts, err := b.startCursors(ctx, s, config.Start, config.Partitions)
	if err != nil {
		return err
	}
	now, err := b.now(ctx)
	if err != nil {
		return err
	}
	g := newGroup(s, name, groupRecord{
		Partitions: config.Partitions, Starts: starts, MaxAttempts: config.MaxAttempts,
		Ordering: config.Ordering, CreatedAt: now.UnixMicro(),
	})
	made, err := b.register(ctx, b.groupsKey(streamName), name, g.record)
	if err != nil {
		return err
	}
	if !made {
		return rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, streamName)
	}
	return b.join(ctx, g)
}

// startCursors resolves a start against the stream as it is now.
func (b *Backend) startCursors(ctx context.Context, s *stream, start rheo.Start, partitions []int) ([]int64, error) {
	parts := make([]part, len(partitions))
	for i, p := range partitions {
		parts[i] = part{s, p}
	}
	highs, err := b.highs(ctx, parts)
	if err != nil {
		return nil, err
	}
	var firsts []int64
	if start.Kind == rheo.StartKindTime {
		if firsts, err = b.seekTime(ctx, s, partitions, start.Time); err != nil {
			return nil, err
		}
	}
	cursors := make([]int64, len(partitions))
	for i, p := range partitions {
		cursor, err := delivery.StartCursor(ctx, start, p, highs[i], func(context.Context, int) (int64, error) {
			return firsts[i], nil
		})
		if err != nil {
			return nil, err
		}
		cursors[i] = exact(cursor)
	}
	return cursors, nil
}

// seekTime returns, of each partition, the first sequence whose event has that
// timestamp or a later one, or one more than the last.
func (b *Backend) seekTime(ctx context.Context, s *stream, partitions []int, t time.Time) ([]int64, error) {
	calls := make([]*call, len(partitions))
	for i, p := range partitions {
		k := &s.keys[p]
		calls[i] = b.call(seekScript, []string{k.meta, k.log}, formatInt(ceilMicro(t)))
	}
	if _, err := b.onStream(ctx, reading, s, calls...); err != nil {
		return nil, err
	}
	firsts := make([]int64, len(partitions))
	for i, c := range calls {
		firsts[i], _ = c.reply.(int64)
	}
	return firsts, nil
}

// ceilMicro is the first whole µs that is not before t, as timestamps are whole ones.
func ceilMicro(t time.Time) int64 {
	micros := t.UnixMicro()
	if time.UnixMicro(micros).Before(t) {
		micros++
	}
	return micros
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, streamName string) ([]string, error) {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	names, err := ask(ctx, b, func() ([]string, error) { return b.client.HKeys(ctx, b.groupsKey(streamName)).Result() })
	if err == nil && len(names) == 0 {
		_, err = b.describe(ctx, s) // or is the stream gone, too?
	}
	slices.Sort(names)
	return names, err
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, streamName, name string) (rheo.GroupInfo, error) {
	g, err := b.group(ctx, streamName, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	calls := make([]*call, len(g.record.Partitions))
	override := b.override()
	for i, p := range g.record.Partitions {
		k := g.keys[p]
		calls[i] = b.call(infoScript, []string{k.meta, k.log, k.state, k.dead}, name, override)
	}
	if _, err := b.onGroup(ctx, reading, g, g.record.Partitions, calls...); err != nil {
		return rheo.GroupInfo{}, err
	}
	info := rheo.GroupInfo{
		Stream: streamName, Group: name, CreatedAt: time.UnixMicro(g.record.CreatedAt).UTC(),
		MaxAttempts: g.record.MaxAttempts, Ordering: g.record.Ordering,
	}
	for i, p := range g.record.Partitions {
		one, dead, err := b.partitionInfo(ctx, g, p, override, calls[i].reply)
		if err != nil {
			return rheo.GroupInfo{}, err
		}
		info.Partitions = append(info.Partitions, one)
		info.DeadLetters += dead
	}
	return info, nil
}

// partitionInfo reads what the script "info" tells. Leases that have run out by the
// ten thousands are counted in several steps, so that none holds the server up.
func (b *Backend) partitionInfo(ctx context.Context, g *group, p int, override string, reply any) (rheo.PartitionInfo, int64, error) {
	list, _ := reply.([]any)
	if len(list) != 11 {
		return rheo.PartitionInfo{}, 0, damaged(p, "the script's answer is another's")
	}
	n := integers(list[1:])
	high, position, cursor, frontier, pending, waiting, ended, upto, dead := n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]
	for upto > 0 {
		k := g.keys[p]
		reply, err := b.one(ctx, reading, expiredScript, []string{k.log}, g.name, override, formatInt(upto))
		if err != nil {
			return rheo.PartitionInfo{}, 0, err
		}
		more := integers(reply)
		ended, upto = ended+more[0], more[1]
	}
	info := rheo.PartitionInfo{
		Partition: p, Cursor: cursor, Frontier: frontier, HighWatermark: high, Lag: max(0, high-frontier),
		InFlight: max(0, pending-waiting-ended),
		Waiting:  waiting + ended + max(0, min(cursor, high)-position),
	}
	now, oldest := microsOf(list[0]), microsOf(list[10])
	if info.Lag > 0 && !oldest.IsZero() {
		info.OldestUnacked = max(0, now.Sub(oldest))
	}
	return info, dead, nil
}

// microsOf reads a time that a script wrote as text, zero if there is none.
func microsOf(reply any) time.Time {
	text, _ := reply.(string)
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
