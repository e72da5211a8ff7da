package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
)

var (
	checkScript = load("check")
	foundScript = load("found")
)

// stream is what never changes of a stream, remembered.
type stream struct {
	name      string
	createdAt time.Time
	keys      []partitionKeys // by partition
}

// streamRecord is a stream's entry in the registry.
type streamRecord struct {
	Partitions int   `json:"partitions"`
	CreatedAt  int64 `json:"created_at"` // µs
}

func (b *Backend) newStream(name, encoded string) (*stream, error) {
	var record streamRecord
	if err := json.Unmarshal([]byte(encoded), &record); err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "the entry of stream %q in %s cannot be read", name, b.registryKey())
	}
	s := &stream{name: name, createdAt: time.UnixMicro(record.CreatedAt).UTC(), keys: make([]partitionKeys, record.Partitions)}
	for p := range s.keys {
		s.keys[p] = b.partitionKeys(name, p)
	}
	return s, nil
}

// stream returns the stream of that name, asking Redis the first time.
func (b *Backend) stream(ctx context.Context, name string) (*stream, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if found, ok := b.streams.Load(name); ok {
		return found.(*stream), nil
	}
	encoded, err := b.registered(ctx, b.registryKey(), name)
	if err != nil {
		return nil, err
	}
	if encoded == "" {
		return nil, streamNotFound(name)
	}
	s, err := b.newStream(name, encoded)
	if err != nil {
		return nil, err
	}
	known, _ := b.streams.LoadOrStore(name, s)
	return known.(*stream), nil
}

func streamNotFound(name string) error {
	return rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
}

// registered returns a hash's field, or "" if it is not there.
func (b *Backend) registered(ctx context.Context, key, field string) (string, error) {
	return ask(ctx, b, func() (string, error) {
		value, err := b.client.HGet(ctx, key, field).Result()
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		return value, err
	})
}

// register sets a hash's field, and reports whether it was not there before.
func (b *Backend) register(ctx context.Context, key, field string, record any) (bool, error) {
	encoded, err := json.Marshal(record)
	if err != nil {
		return false, err
	}
	made, err := b.one(ctx, writing, registerScript, []string{key}, field, string(encoded))
	return made == int64(1), err
}

var registerScript = load("register")

// CreateStream implements [rheo.Backend]. The registry comes last: what is in it is
// complete.
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	taken := rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name)
	if there, err := b.registered(ctx, b.registryKey(), name); err != nil || there != "" {
		return cmp.Or(err, taken)
	}
	now, err := b.now(ctx)
	if err != nil {
		return err
	}
	calls := make([]*call, config.Partitions)
	for p := range calls {
		keys := b.partitionKeys(name, p)
		calls[p] = b.call(foundScript, []string{keys.meta, keys.log}, b.override())
	}
	if _, err := b.run(ctx, writing, calls...); err != nil {
		return err
	}
	made, err := b.register(ctx, b.registryKey(), name, streamRecord{config.Partitions, now.UnixMicro()})
	if err == nil && !made {
		err = taken
	}
	return err
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	s, err := b.stream(ctx, name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	infos, err := b.describe(ctx, s)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	return infos[0], nil
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	all, err := ask(ctx, b, func() (map[string]string, error) { return b.client.HGetAll(ctx, b.registryKey()).Result() })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	streams := make([]*stream, 0, len(all))
	for name, encoded := range all {
		s, err := b.newStream(name, encoded)
		if err != nil {
			return nil, err
		}
		streams = append(streams, s)
	}
	slices.SortFunc(streams, func(x, y *stream) int { return cmp.Compare(x.name, y.name) })
	return b.describe(ctx, streams...)
}

// describe reads the high watermarks, in one round trip.
func (b *Backend) describe(ctx context.Context, streams ...*stream) ([]rheo.StreamInfo, error) {
	infos := make([]rheo.StreamInfo, len(streams))
	parts := make([]part, 0, len(streams))
	for i, s := range streams {
		infos[i] = rheo.StreamInfo{
			Name: s.name, Partitions: len(s.keys), CreatedAt: s.createdAt, HighWatermarks: make([]int64, len(s.keys)),
		}
		for p := range s.keys {
			parts = append(parts, part{s, p})
		}
	}
	highs, err := b.highs(ctx, parts)
	if err != nil {
		return nil, err
	}
	for i, s := range streams {
		infos[i].HighWatermarks, highs = highs[:len(s.keys):len(s.keys)], highs[len(s.keys):]
	}
	return infos, nil
}

// part names a partition.
type part struct {
	stream    *stream
	partition int
}

// highs returns the partitions' last sequences.
func (b *Backend) highs(ctx context.Context, parts []part) ([]int64, error) {
	type found struct {
		highs   []int64
		missing int // the place of a partition that is not there, or -1
	}
	f, err := ask(ctx, b, func() (found, error) {
		f := found{highs: make([]int64, len(parts)), missing: -1}
		answers := make([]*redis.StringCmd, len(parts))
		pipeline := b.client.Pipeline()
		for i, p := range parts {
			answers[i] = pipeline.HGet(ctx, p.stream.keys[p.partition].meta, "high")
		}
		_, _ = pipeline.Exec(ctx) // each answer has its own error
		for i, answer := range answers {
			high, err := answer.Int64()
			if errors.Is(err, redis.Nil) {
				f.missing = i
				continue
			}
			if err != nil {
				return f, err
			}
			f.highs[i] = high
		}
		return f, nil
	})
	if err == nil && f.missing >= 0 {
		p := parts[f.missing]
		err = b.lostPartition(ctx, p.stream, p.stream.keys[p.partition].meta, nil)
	}
	return f.highs, err
}
