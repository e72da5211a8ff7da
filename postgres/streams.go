package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rheo-go/rheo"
)

var (
	streamCreate = load("stream_create")
	streamFind   = load("stream_find")
	streamList   = load("stream_list")
)

// stream is what never changes of a stream, remembered.
type stream struct {
	id         int64
	name       string
	partitions int
	appends    combiner
	lanes      []combiner     // by partition, of large batches
	careful    atomic.Int64   // how many more appends look for duplicates first
	highs      []atomic.Int64 // by partition: up to where events are known to be there
}

// high returns up to where the partition is known to have events.
func (s *stream) high(partition int) int64 { return s.highs[partition].Load() }

// raise takes note that the partition has events up to the sequence.
func (s *stream) raise(partition int, sequence int64) {
	high := &s.highs[partition]
	for known := high.Load(); known < sequence && !high.CompareAndSwap(known, sequence); {
		known = high.Load()
	}
}

// stream returns the stream of that name, asking the database the first time.
func (b *Backend) stream(ctx context.Context, name string) (*stream, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if found, ok := b.streams.Load(name); ok {
		return found.(*stream), nil
	}
	var s *stream
	err := b.trip(ctx, reading, func(batch *pgx.Batch) {
		batch.Queue(b.text(streamFind), name).QueryRow(func(row pgx.Row) (err error) {
			s, err = b.found(name, row)
			return err
		})
	})
	return s, err
}

// found remembers the stream that a row of streamFind describes.
func (b *Backend) found(name string, row pgx.Row) (*stream, error) {
	s := &stream{name: name}
	var waiting bool
	err := row.Scan(&s.id, &s.partitions, &waiting)
	if noRows(err) {
		return nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	if err != nil {
		return nil, err
	}
	s.lanes = make([]combiner, s.partitions)
	s.highs = make([]atomic.Int64, s.partitions)
	known, _ := b.streams.LoadOrStore(name, s)
	return known.(*stream), nil
}

// gone is told when a stream that was remembered is no longer in the database,
// as after a restore of another one.
func (b *Backend) gone(s *stream) error {
	b.streams.CompareAndDelete(s.name, s)
	return rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", s.name)
}

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	var made int64
	err := b.trip(ctx, writing, func(batch *pgx.Batch) {
		batch.Queue(b.text(streamCreate), name, config.Partitions, b.clock.parameter()).Exec(affected(&made))
	})
	if err == nil && made == 0 {
		err = rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name)
	}
	return err
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	infos, err := b.streamInfos(ctx, &name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	if len(infos) == 0 {
		return rheo.StreamInfo{}, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	return infos[0], nil
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	return b.streamInfos(ctx, nil)
}

func (b *Backend) streamInfos(ctx context.Context, name *string) ([]rheo.StreamInfo, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	var infos []rheo.StreamInfo
	for round := 1; ; round++ {
		var waiting []int64
		err := b.trip(ctx, reading, func(batch *pgx.Batch) {
			infos, waiting = nil, nil
			batch.Queue(b.text(streamList), name).Query(func(rows pgx.Rows) error {
				info, id, behind := rheo.StreamInfo{}, int64(0), false
				_, err := pgx.ForEachRow(rows, []any{&info.Name, &info.CreatedAt, &info.HighWatermarks, &behind, &id}, func() error {
					info.CreatedAt, info.Partitions = info.CreatedAt.UTC(), len(info.HighWatermarks)
					infos = append(infos, info)
					info.HighWatermarks = nil
					if behind {
						waiting = append(waiting, id)
					}
					return nil
				})
				return err
			})
		})
		if err != nil || len(waiting) == 0 || round > 1 || hostTx(ctx) != nil {
			return infos, err
		}
		for _, id := range waiting {
			if err := b.place(ctx, id); err != nil {
				return nil, err
			}
		}
	}
}

func affected(n *int64) func(tag pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	}
}
