package rheo

import (
	"context"
	"time"
)

// StreamConfig is what a stream is created with.
type StreamConfig struct {
	// Partitions is how many parts the stream has, for ever. Order holds within
	// a partition, and parts are what consumers share out. Default 1, at most
	// [MaxPartitions].
	Partitions int
}

// StreamInfo describes a stream.
type StreamInfo struct {
	Name       string    `json:"name"`
	Partitions int       `json:"partitions"`
	CreatedAt  time.Time `json:"created_at"`
	// HighWatermarks holds each partition's last sequence, 0 where it is empty.
	HighWatermarks []int64 `json:"high_watermarks"`
}

// Events is the number of events in the stream.
func (s *StreamInfo) Events() int64 {
	var n int64
	for _, high := range s.HighWatermarks {
		n += high
	}
	return n
}

// CreateStream makes a stream. It returns [ErrAlreadyExists] if there is one of
// that name, whatever its configuration; a service that starts many times simply
// ignores that error.
func (i *Instance) CreateStream(ctx context.Context, name string, config StreamConfig) error {
	if err := i.ready(ctx); err != nil {
		return err
	}
	if config.Partitions == 0 {
		config.Partitions = 1
	}
	if err := checkName("stream", name); err != nil {
		return err
	}
	if err := checkRange("partitions", int64(config.Partitions), 1, MaxPartitions); err != nil {
		return err
	}
	return i.backend.CreateStream(ctx, name, config)
}

// StreamInfo describes the stream as it is now.
func (i *Instance) StreamInfo(ctx context.Context, name string) (StreamInfo, error) {
	if err := i.ready(ctx); err != nil {
		return StreamInfo{}, err
	}
	if err := checkName("stream", name); err != nil {
		return StreamInfo{}, err
	}
	return i.backend.Stream(ctx, name)
}

// Streams lists the streams by name.
func (i *Instance) Streams(ctx context.Context) ([]StreamInfo, error) {
	if err := i.ready(ctx); err != nil {
		return nil, err
	}
	return i.backend.Streams(ctx)
}

// partitions returns how many partitions the stream has. That never changes, so
// it is asked of the store once.
func (i *Instance) partitions(ctx context.Context, stream string) (int, error) {
	if err := checkName("stream", stream); err != nil {
		return 0, err
	}
	if n, ok := i.partitionCounts.Load(stream); ok {
		return n.(int), nil
	}
	info, err := i.backend.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	i.partitionCounts.Store(stream, info.Partitions)
	return info.Partitions, nil
}
