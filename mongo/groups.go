package mongo

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

// groupDocument is a group as it is stored. Its insertion is what creates the
// group; its ledgers come after.
type groupDocument struct {
	Key         string        `bson:"_id"` // made of stream and group
	ID          bson.ObjectID `bson:"id"`  // tells it from another one of that name before
	Stream      string        `bson:"stream"`
	Group       string        `bson:"group"`
	Partitions  []int         `bson:"partitions"`
	Starts      []int64       `bson:"starts"` // the cursor that each partition began with
	MaxAttempts int           `bson:"max_attempts"`
	Ordering    string        `bson:"ordering"`
	CreatedAt   int64         `bson:"created_at"` // Unix microseconds
}

// group is what never changes of a group, remembered.
type group struct {
	document groupDocument
	stream   *stream
	plan     delivery.Group
	starts   map[int]int64
	turn     atomic.Uint64
}

type groupKey struct{ stream, group string }

func (b *Backend) rememberGroup(s *stream, d *groupDocument) *group {
	g := &group{document: *d, stream: s, starts: make(map[int]int64, len(d.Partitions))}
	g.plan = delivery.GroupOf(rheo.GroupConfig{Partitions: d.Partitions, MaxAttempts: d.MaxAttempts, Ordering: rheo.Ordering(d.Ordering)})
	for i, p := range d.Partitions {
		g.starts[p] = d.Starts[i]
	}
	b.groups.Store(groupKey{d.Stream, d.Group}, g)
	return g
}

// group returns the group of that name, asking the database the first time.
func (b *Backend) group(ctx context.Context, streamName, name string) (*group, error) {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	if found, ok := b.groups.Load(groupKey{streamName, name}); ok {
		return found.(*group), nil
	}
	return b.groupAnew(ctx, s, name)
}

func (b *Backend) groupAnew(ctx context.Context, s *stream, name string) (*group, error) {
	var d groupDocument
	err := b.collections.groups.FindOne(withoutSession(ctx), bson.D{{Key: "_id", Value: key(s.name, name)}}).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		b.groups.Delete(groupKey{s.name, name})
		return nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, s.name)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	return b.rememberGroup(s, &d), nil
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, streamName, name string, config rheo.GroupConfig) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return err
	}
	now, err := b.now(ctx)
	if err != nil {
		return err
	}
	d := groupDocument{
		Key: key(streamName, name), ID: bson.NewObjectID(), Stream: streamName, Group: name, Partitions: config.Partitions,
		MaxAttempts: config.MaxAttempts, Ordering: string(config.Ordering), CreatedAt: now.UnixMicro(),
	}
	if d.Starts, err = b.startCursors(ctx, s, config.Start, config.Partitions); err != nil {
		return err
	}
	_, err = b.collections.groups.InsertOne(ctx, d)
	switch {
	case mongo.IsDuplicateKeyError(err):
		return rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, streamName)
	case err != nil:
		return b.failure(err, writing)
	}
	g := b.rememberGroup(s, &d)
	_ = b.makeLedgers(ctx, g, config.Partitions) // else whoever looks for them first does
	return nil
}

// startCursors resolves a start against the stream as it is now.
func (b *Backend) startCursors(ctx context.Context, s *stream, start rheo.Start, partitions []int) ([]int64, error) {
	if start.Kind == rheo.StartKindEnd || start.Kind == rheo.StartKindTime {
		if err := b.lookAtTails(ctx, s); err != nil {
			return nil, err
		}
	}
	cursors := make([]int64, len(partitions))
	for i, p := range partitions {
		var err error
		cursors[i], err = delivery.StartCursor(ctx, start, p, s.tail(p), func(ctx context.Context, p int) (int64, error) {
			return b.seekTime(ctx, s, p, start.Time)
		})
		if err != nil {
			return nil, err
		}
	}
	return cursors, nil
}

// seekTime returns the first sequence of the partition whose event has that
// timestamp or a later one, or one more than the tail as it is known.
func (b *Backend) seekTime(ctx context.Context, s *stream, partition int, t time.Time) (int64, error) {
	at := microsecondsFrom(t)
	var found struct {
		First int64 `bson:"first"`
	}
	err := b.collections.log.FindOne(ctx, // nothing but what an index has
		bson.D{{Key: "stream", Value: s.name}, {Key: "partition", Value: partition}, {Key: "newest", Value: bson.D{{Key: "$gte", Value: at}}}},
		options.FindOne().SetSort(bson.D{{Key: "first", Value: 1}}).SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "first", Value: 1}})).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return s.tail(partition) + 1, nil
	}
	if err != nil {
		return 0, b.failure(err, reading)
	}
	have, err := b.load(ctx, s, []stretch{{partition, found.First, found.First}})
	if err != nil {
		return 0, err
	}
	c := have.find(partition, found.First)
	if c == nil {
		return 0, rheo.Errorf(rheo.ErrFailed, "the commit document %s is gone", place(s.name, partition, found.First))
	}
	i := slices.IndexFunc(c.Events, func(e entry) bool { return e.At >= at })
	if i < 0 {
		return 0, damaged(c)
	}
	return c.First + int64(i), nil
}

// microsecondsFrom returns the first whole microsecond that is not before t.
func microsecondsFrom(t time.Time) int64 {
	at := t.UnixMicro()
	if time.UnixMicro(at).Before(t) && at < math.MaxInt64 {
		at++
	}
	return at
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, streamName string) ([]string, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.stream(ctx, streamName); err != nil {
		return nil, err
	}
	var all []groupDocument
	cursor, err := b.collections.groups.Find(ctx, bson.D{{Key: "stream", Value: streamName}})
	if err == nil {
		err = cursor.All(ctx, &all)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Group)
	}
	slices.Sort(names)
	return names, nil
}

// Group implements [rheo.Backend]. The ledgers are read before the log's ends, so
// that none seems to be ahead of it.
func (b *Backend) Group(ctx context.Context, streamName, name string) (rheo.GroupInfo, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	g, err := b.group(ctx, streamName, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	rows, err := b.ledgersOf(ctx, g, g.plan.Partitions)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	if err := b.lookAtTails(ctx, g.stream); err != nil {
		return rheo.GroupInfo{}, err
	}
	now, err := b.now(ctx)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	info := rheo.GroupInfo{
		Stream: streamName, Group: name, MaxAttempts: g.plan.MaxAttempts, Ordering: rheo.Ordering(g.document.Ordering),
		CreatedAt: time.UnixMicro(g.document.CreatedAt).UTC(),
	}
	for _, r := range rows {
		l, err := r.decode()
		if err != nil {
			return rheo.GroupInfo{}, err
		}
		info.Partitions = append(info.Partitions, delivery.PartitionInfo(r.Partition, l, g.stream.tail(r.Partition), g.plan.MaxRuns, now))
		info.DeadLetters += r.Letters
	}
	if err := b.addAges(ctx, g.stream, &info, now); err != nil {
		return rheo.GroupInfo{}, err
	}
	return info, nil
}

// addAges tells the age of the first event above each frontier.
func (b *Backend) addAges(ctx context.Context, s *stream, info *rheo.GroupInfo, now time.Time) error {
	var wanted []stretch
	for i := range info.Partitions {
		if p := &info.Partitions[i]; p.Lag > 0 {
			wanted = append(wanted, stretch{p.Partition, p.Frontier + 1, p.Frontier + 1})
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	have, err := b.load(ctx, s, wanted)
	if err != nil {
		return err
	}
	for i := range info.Partitions {
		p := &info.Partitions[i]
		if p.Lag == 0 {
			continue
		}
		e, err := have.event(p.Partition, p.Frontier+1)
		if err != nil {
			return err
		}
		p.OldestUnacked = max(0, now.Sub(e.Timestamp))
	}
	return nil
}
