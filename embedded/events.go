package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
	"go.etcd.io/bbolt"
)

var errMissing = errors.New("missing")

// damaged wraps what went wrong at a place of the log.
func (p *partition) damaged(db *database, sequence int64, cause error) error {
	return db.damaged(cause, "stream %q, partition %d, sequence %d", p.stream.name, p.number, sequence)
}

// blocks calls f with each block that holds some of first to last, all of which
// must be in the log, until f returns false. It is one read transaction: f must
// be short.
func (p *partition) blocks(db *database, first, last int64, descending bool, f func(*block) (more bool, err error)) error {
	at := first
	if descending {
		at = last
	}
	err := db.view(func(tx *bbolt.Tx) error {
		bucket, err := bucketOf(tx, p.events)
		if err != nil {
			return err
		}
		cursor := bucket.Cursor()
		k, v := cursor.Seek(sequenceKey(at))
		for {
			if k == nil {
				return errMissing
			}
			b, err := parseBlock(p.events, k, v)
			if err != nil {
				return err
			}
			if at < b.first || at > b.last {
				return errMissing
			}
			if more, err := f(&b); err != nil || !more {
				return err
			}
			if descending {
				at = b.first - 1
				k, v = cursor.Prev()
			} else {
				at = b.last + 1
				k, v = cursor.Next()
			}
			if at < first || at > last {
				return nil
			}
		}
	})
	if err != nil {
		return p.damaged(db, at, err)
	}
	return nil
}

func sequenceKey(sequence int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, sequenceSize), uint64(sequence))
}

// load appends the events first to last, which must be in the log.
func (p *partition) load(db *database, dst []rheo.Event, first, last int64) ([]rheo.Event, error) {
	if first > last {
		return dst, nil
	}
	err := p.blocks(db, first, last, false, func(b *block) (bool, error) {
		var err error
		dst, err = b.decode(dst, max(first, b.first), min(last, b.last), p.stream.name, p.number)
		return true, err
	})
	return dst, err
}

// walkChunk bounds what a walk reads in one transaction.
const walkChunk = 256 << 10

// walk yields the events first to last, or backwards. It holds no transaction
// while it yields.
func (p *partition) walk(db *database, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	return func(yield func(*rheo.Event, error) bool) {
		var events []rheo.Event
		var err error
		for first <= last {
			if events, err = p.chunk(db, events[:0], first, last, descending); err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
			}
			if descending {
				last -= int64(len(events))
			} else {
				first += int64(len(events))
			}
		}
	}
}

// chunk appends as many of the events as one transaction should read, at least
// one.
func (p *partition) chunk(db *database, dst []rheo.Event, first, last int64, descending bool) ([]rheo.Event, error) {
	bytes := 0
	err := p.blocks(db, first, last, descending, func(b *block) (bool, error) {
		var err error
		n := len(dst)
		if dst, err = b.decode(dst, max(first, b.first), min(last, b.last), p.stream.name, p.number); err != nil {
			return false, err
		}
		if descending {
			reverse(dst[n:])
		}
		bytes += len(b.heads) + len(b.payloads)
		return bytes < walkChunk, nil
	})
	return dst, err
}

func reverse(events []rheo.Event) {
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
}

// seekTime returns the first sequence with that timestamp or a later one, or one
// more than the high watermark.
func (p *partition) seekTime(ctx context.Context, db *database, t time.Time) (int64, error) {
	const perTransaction = 256 // blocks
	micros := t.UnixMicro()
	high := p.high.Load()
	for next := int64(1); next <= high; {
		if err := ctx.Err(); err != nil {
			return 0, rheo.WrapError(rheo.ErrUnavailable, err, "the context ended while looking for a time")
		}
		found, blocks := int64(0), 0
		err := p.blocks(db, next, high, false, func(b *block) (bool, error) {
			blocks++
			next = b.last + 1
			if b.newest < micros {
				return blocks < perTransaction, nil
			}
			events, err := b.decode(nil, b.first, b.last, p.stream.name, p.number)
			for i := range events {
				if found == 0 && !events[i].Timestamp.Before(t) {
					found = events[i].Sequence
				}
			}
			return found == 0, err
		})
		if err != nil || found > 0 {
			return found, err
		}
	}
	return high + 1, nil
}

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	s, err := b.stream(r.Stream)
	if err != nil {
		return nil, err
	}
	p := s.partitions[r.Partition]
	last := min(p.high.Load(), r.After+int64(r.Limit))
	if r.After >= last {
		return nil, nil
	}
	return p.load(b.db, make([]rheo.Event, 0, last-r.After), r.After+1, last)
}

// Query implements [rheo.Backend].
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	if err := b.enter(ctx); err != nil {
		return rheo.Page{}, err
	}
	defer b.leave()
	s, err := b.stream(r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	return scan.Page(ctx, source{s, b.db}, r)
}

// source is a stream as package scan reads it.
type source struct {
	*stream
	db *database
}

func (s source) High(_ context.Context, partition int) (int64, error) {
	return s.partitions[partition].high.Load(), nil
}

func (s source) Walk(_ context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	return s.partitions[partition].walk(s.db, first, last, descending)
}

func (s source) Locate(_ context.Context, partition int, id string) (sequence int64, ok bool, err error) {
	sequence, err = s.partitions[partition].locate(s.db, id)
	return sequence, true, err
}
