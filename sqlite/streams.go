package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/rheo-go/rheo"
)

// stream is what never changes of a stream. Its partitions are the logs from
// firstLog on.
type stream struct {
	id         int64
	name       string
	partitions int
	firstLog   int64
	createdAt  time.Time
}

const (
	sequenceBits = 40
	maxSequence  = 1<<sequenceBits - 1
	maxLogs      = 1 << (62 - sequenceBits)
)

func (s *stream) log(partition int) int64 { return s.firstLog + int64(partition) }

// place is where an event is: the key of its row.
func (s *stream) place(partition int, sequence int64) int64 {
	return s.log(partition)<<sequenceBits | min(sequence, maxSequence)
}

// at takes a place apart.
func (s *stream) at(place int64) (partition int, sequence int64) {
	return int(place>>sequenceBits - s.firstLog), place & maxSequence
}

func (s *stream) scan(rows *sql.Rows) error {
	var created int64
	err := rows.Scan(&s.id, &s.name, &s.partitions, &s.firstLog, &created)
	s.createdAt = time.UnixMicro(created).UTC()
	return err
}

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return b.writer.do(ctx, func(ctx context.Context, tx *transaction) error {
		if found, err := findStream(ctx, tx.session, name); err != nil || found != nil {
			return cmp.Or(err, rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name))
		}
		s := &stream{name: name, partitions: config.Partitions}
		if _, err := tx.one(ctx, "next-log", []any{&s.firstLog}); err != nil {
			return err
		}
		if s.firstLog+int64(s.partitions) > maxLogs {
			return rheo.Errorf(rheo.ErrFailed, "the streams of this database have %d partitions, and %d more would be above the limit of %d", s.firstLog-1, s.partitions, maxLogs)
		}
		return b.insertStream(ctx, tx, s)
	})
}

func (b *Backend) insertStream(ctx context.Context, tx *transaction, s *stream) error {
	tx.changes++
	if _, err := tx.one(ctx, "create-stream", []any{&s.id}, s.name, s.partitions, s.firstLog, b.now().UnixMicro()); err != nil {
		return err
	}
	for p := range s.partitions {
		if _, err := tx.write(ctx, "create-partition", s.log(p), s.id, p); err != nil {
			return err
		}
	}
	return nil
}

// findStream returns nil if there is none of that name.
func findStream(ctx context.Context, session *session, name string) (*stream, error) {
	var found *stream
	err := session.each(ctx, "stream", func(rows *sql.Rows) error {
		found = &stream{}
		return found.scan(rows)
	}, name)
	return found, err
}

func (b *Backend) stream(ctx context.Context, name string) (*stream, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if known, ok := b.streams.Load(name); ok {
		return known.(*stream), nil
	}
	s, err := findStream(ctx, b.reader(ctx), name)
	if err != nil {
		return nil, failure(reading, err)
	}
	if s == nil {
		return nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	known, _ := b.streams.LoadOrStore(name, s)
	return known.(*stream), nil
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	s, err := b.stream(ctx, name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	return s.info(ctx, b.reader(ctx))
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	var all []*stream
	err := b.pool.each(ctx, "streams", func(rows *sql.Rows) error {
		s := &stream{}
		all = append(all, s)
		return s.scan(rows)
	})
	if err != nil {
		return nil, failure(reading, err)
	}
	infos := make([]rheo.StreamInfo, len(all))
	for i, s := range all {
		if infos[i], err = s.info(ctx, b.pool); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

func (s *stream) info(ctx context.Context, session *session) (rheo.StreamInfo, error) {
	highs, err := s.highs(ctx, session)
	return rheo.StreamInfo{Name: s.name, Partitions: s.partitions, CreatedAt: s.createdAt, HighWatermarks: highs}, err
}

func (s *stream) highs(ctx context.Context, session *session) ([]int64, error) {
	highs := make([]int64, 0, s.partitions)
	err := session.each(ctx, "highs", func(rows *sql.Rows) error {
		var high int64
		err := rows.Scan(&high)
		highs = append(highs, high)
		return err
	}, s.firstLog, s.log(s.partitions))
	return highs, failure(reading, err)
}

// firstSince returns, for each partition that has one, its first sequence with
// that timestamp or a later one.
func (s *stream) firstSince(ctx context.Context, session *session, t time.Time) (map[int]int64, error) {
	first := make(map[int]int64)
	err := session.each(ctx, "first-since", func(rows *sql.Rows) error {
		var log, place int64
		err := rows.Scan(&log, &place)
		partition, sequence := s.at(place)
		first[partition] = sequence
		return err
	}, s.id, ceilMicro(t))
	return first, err
}

// seek returns the delivery.SeekTime of a moment. It reads all partitions' first
// events at once, and at most once.
func (s *stream) seek(tx *transaction, t time.Time) func(context.Context, int) (int64, error) {
	var first map[int]int64
	return func(ctx context.Context, partition int) (int64, error) {
		if first == nil {
			var err error
			if first, err = s.firstSince(ctx, tx.session, t); err != nil {
				return 0, err
			}
		}
		if sequence := first[partition]; sequence > 0 {
			return sequence, nil
		}
		h, err := tx.high(ctx, s.log(partition))
		if err != nil {
			return 0, err
		}
		return h.high + 1, nil
	}
}

// ceilMicro returns t in microseconds, rounded up: an event's whole microseconds
// are before t if and only if they are less than that.
func ceilMicro(t time.Time) int64 {
	micros := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		micros++
	}
	return micros
}
