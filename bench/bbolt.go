package bench

import (
	"context"
	"encoding/binary"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Bbolt is bare bbolt with its default options, doing the least that a log
// needs: one bucket from sequence to record, one commit per appended batch; a
// consumer that reads by cursor, and one commit of its position per batch. No
// index, no lease, no attempt is kept.
type Bbolt struct{}

// Name implements Subject.
func (Bbolt) Name() string { return "bbolt" }

// Confirms implements Subject.
func (Bbolt) Confirms() string { return "fsync per batch" }

var (
	logBucket    = []byte("log")
	cursorBucket = []byte("cursors")
	cursorKey    = []byte("consumer")
)

// Open implements Subject.
func (Bbolt) Open(_ context.Context, dir string) (Session, error) {
	db, err := bolt.Open(filepath.Join(dir, "log.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{logBucket, cursorBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return &bboltSession{db: db, tail: newTail()}, nil
}

type bboltSession struct {
	db   *bolt.DB
	tail *tail
}

// Append implements Session.
func (s *bboltSession) Append(_ context.Context, batch []Event) error {
	var last uint64
	err := s.db.Update(func(tx *bolt.Tx) error {
		log := tx.Bucket(logBucket)
		sequence := log.Sequence()
		records := make([]byte, 0, len(batch)*(PayloadSize+80)) // must live until the commit
		for i := range batch {
			sequence++
			start := len(records)
			records = batch[i].AppendRecord(records)
			if err := log.Put(sequenceKey(sequence), records[start:len(records):len(records)]); err != nil {
				return err
			}
		}
		last = sequence
		return log.SetSequence(sequence)
	})
	if err != nil {
		return err
	}
	s.tail.grow(last)
	return nil
}

// Subscribe implements Session; the position starts at zero.
func (*bboltSession) Subscribe(context.Context) error { return nil }

// Consume implements Session.
func (s *bboltSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	from, to, err := s.tail.claim(ctx, uint64(limit))
	if err != nil {
		return 0, err
	}
	if err := s.read(from, to, handle); err != nil {
		return 0, err
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(cursorBucket).Put(cursorKey, sequenceKey(to))
	})
	if err != nil {
		return 0, err
	}
	return int(to - from + 1), nil
}

func (s *bboltSession) read(from, to uint64, handle func([]byte)) error {
	return s.db.View(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(logBucket).Cursor()
		key, record := cursor.Seek(sequenceKey(from))
		for ; key != nil && binary.BigEndian.Uint64(key) <= to; key, record = cursor.Next() {
			payload, err := recordPayload(record)
			if err != nil {
				return err
			}
			handle(payload)
		}
		return nil
	})
}

// Flush implements Session: every Consume has committed already.
func (*bboltSession) Flush(context.Context) error { return nil }

// Close implements Session.
func (s *bboltSession) Close() error { return s.db.Close() }

func sequenceKey(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), sequence)
}
