package mongo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

// streamDocument is a stream as it is stored.
type streamDocument struct {
	Name       string `bson:"_id"`
	Partitions int    `bson:"partitions"`
	CreatedAt  int64  `bson:"created_at"` // Unix microseconds
}

// stream is what never changes of a stream, remembered, and up to where its
// partitions are known to go.
type stream struct {
	name       string
	partitions int
	createdAt  time.Time
	appends    combiner
	tails      []atomic.Int64 // by partition: a majority holds all up to here
	looked     atomic.Int64   // when all of them were last looked up, in Unix nanoseconds; 0: never
}

// tail returns up to where the partition is known to have events.
func (s *stream) tail(partition int) int64 { return s.tails[partition].Load() }

// raise takes note that the partition has events up to the sequence.
func (s *stream) raise(partition int, sequence int64) {
	tail := &s.tails[partition]
	for known := tail.Load(); known < sequence && !tail.CompareAndSwap(known, sequence); {
		known = tail.Load()
	}
}

// forget is for when what is known of the stream's log turns out to be of another.
func (b *Backend) forget(s *stream) {
	for p := range s.tails {
		s.tails[p].Store(0)
	}
	s.looked.Store(0)
	b.commits.forget(s.name)
}

func (b *Backend) remember(d *streamDocument) *stream {
	s := &stream{name: d.Name, partitions: d.Partitions, createdAt: time.UnixMicro(d.CreatedAt).UTC()}
	s.tails = make([]atomic.Int64, d.Partitions)
	known, _ := b.streams.LoadOrStore(d.Name, s)
	return known.(*stream)
}

// stream returns the stream of that name, asking the database the first time.
func (b *Backend) stream(ctx context.Context, name string) (*stream, error) {
	if found, ok := b.streams.Load(name); ok {
		return found.(*stream), nil
	}
	var d streamDocument
	err := b.collections.streams.FindOne(withoutSession(ctx), bson.D{{Key: "_id", Value: name}}).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	return b.remember(&d), nil
}

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	now, err := b.now(ctx)
	if err != nil {
		return err
	}
	d := streamDocument{Name: name, Partitions: config.Partitions, CreatedAt: now.UnixMicro()}
	_, err = b.collections.streams.InsertOne(ctx, d)
	switch {
	case mongo.IsDuplicateKeyError(err):
		return rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name)
	case err != nil:
		return b.failure(err, writing)
	}
	b.remember(&d)
	return nil
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	s, err := b.stream(ctx, name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	return b.describe(ctx, s)
}

func (b *Backend) describe(ctx context.Context, s *stream) (rheo.StreamInfo, error) {
	if err := b.lookAtTails(ctx, s); err != nil {
		return rheo.StreamInfo{}, err
	}
	info := rheo.StreamInfo{Name: s.name, Partitions: s.partitions, CreatedAt: s.createdAt}
	for p := range s.partitions {
		info.HighWatermarks = append(info.HighWatermarks, s.tail(p))
	}
	return info, nil
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	var all []streamDocument
	cursor, err := b.collections.streams.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err == nil {
		err = cursor.All(ctx, &all)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	infos := make([]rheo.StreamInfo, len(all))
	for i := range all {
		if infos[i], err = b.describe(ctx, b.remember(&all[i])); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// tailsKnown is how long the tails count as known well enough for what came since
// to be asked for, and not each of them anew.
const tailsKnown = time.Minute

// lookAtTails brings what is known of every partition's tail up to date.
func (b *Backend) lookAtTails(ctx context.Context, s *stream) error {
	now := time.Now().UnixNano()
	var err error
	if last := s.looked.Load(); last != 0 && now-last < int64(tailsKnown) {
		err = b.tailsSince(ctx, s)
	} else {
		err = b.tailsAnew(ctx, s)
	}
	if err == nil {
		s.looked.Store(now)
	}
	return err
}

// end is what is looked at of a commit document for where a partition ends.
type end struct {
	Partition int   `bson:"partition"`
	Last      int64 `bson:"last"`
}

var endFields = bson.D{{Key: "_id", Value: 0}, {Key: "partition", Value: 1}, {Key: "last", Value: 1}}

// tailsSince reads the ends of what came behind the tails that are known: one
// command, answered from an index.
func (b *Backend) tailsSince(ctx context.Context, s *stream) error {
	behind := make(bson.A, s.partitions)
	for p := range s.partitions {
		behind[p] = bson.D{{Key: "stream", Value: s.name}, {Key: "partition", Value: p}, {Key: "last", Value: bson.D{{Key: "$gt", Value: s.tail(p)}}}}
	}
	var ends []end
	cursor, err := b.collections.log.Find(ctx, either(behind), options.Find().SetProjection(endFields))
	if err == nil {
		err = cursor.All(ctx, &ends)
	}
	if err != nil {
		return b.failure(err, reading)
	}
	for _, e := range ends {
		s.raise(e.Partition, e.Last)
	}
	return nil
}

// tailsAnew looks up each of the tails, several at a time.
func (b *Backend) tailsAnew(ctx context.Context, s *stream) error {
	const atOnce = 8
	errs := make([]error, s.partitions)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(atOnce, s.partitions) {
		wg.Go(func() {
			for p := int(next.Add(1)) - 1; p < s.partitions; p = int(next.Add(1)) - 1 {
				errs[p] = b.tailAnew(ctx, s, p)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *Backend) tailAnew(ctx context.Context, s *stream, partition int) error {
	var e end
	err := b.collections.log.FindOne(ctx,
		bson.D{{Key: "stream", Value: s.name}, {Key: "partition", Value: partition}},
		options.FindOne().SetSort(bson.D{{Key: "last", Value: -1}}).SetProjection(endFields)).Decode(&e)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return b.failure(err, reading)
	}
	s.raise(partition, e.Last)
	return nil
}

// either is the condition that one of several holds.
func either(alternatives bson.A) bson.D {
	if len(alternatives) == 1 {
		return alternatives[0].(bson.D)
	}
	return bson.D{{Key: "$or", Value: alternatives}}
}
