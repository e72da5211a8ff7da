package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgxLog is a bare log in PostgreSQL, with pgx: the rows of Rheo's events under
// the same primary key; one insert and commit per appended batch, which goes to
// the partition whose turn it is; a consumer that reads by cursor, polling every
// 5 ms when there is nothing, and one commit of its position per batch. No lease,
// no attempt is kept, sequences are counted in this process, and nothing holds
// duplicates off unless UniqueID is set, which adds the index that Rheo has.
type PgxLog struct {
	Server     Server
	Partitions int
	UniqueID   bool
}

// Name implements Subject.
func (s PgxLog) Name() string {
	if s.UniqueID {
		return fmt.Sprintf("pgx-log-%d-unique", s.Partitions)
	}
	return fmt.Sprintf("pgx-log-%d", s.Partitions)
}

// Confirms implements Subject.
func (PgxLog) Confirms() string { return perBatch }

const (
	logPoll   = 5 * time.Millisecond
	logTables = `
CREATE TABLE log (
    stream_id bigint      NOT NULL,
    sequence  bigint      NOT NULL,
    ts        timestamptz NOT NULL,
    partition integer     NOT NULL,
    id        text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    type      text COLLATE "C" NOT NULL,
    metadata  jsonb,
    payload   jsonb NOT NULL,
    PRIMARY KEY (stream_id, partition, sequence)
);
CREATE TABLE cursors (partition integer PRIMARY KEY, sequence bigint NOT NULL);`
	logUnique = `CREATE UNIQUE INDEX log_id ON log (stream_id, partition, id)`
	logInsert = `
INSERT INTO log (stream_id, sequence, ts, partition, id, key, type, metadata, payload)
SELECT 1, $1::bigint + i.n, i.ts, $2::integer, i.id, i.key, i.type, NULL, i.payload::jsonb
FROM unnest($3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[])
     WITH ORDINALITY AS i(ts, id, key, type, payload, n)`
	logRead = `
SELECT sequence, ts, id, key, type, metadata, payload FROM log
WHERE stream_id = 1 AND partition = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`
	logAdvance = `UPDATE cursors SET sequence = $2 WHERE partition = $1`
)

// Open implements Subject.
func (s PgxLog) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openDatabase(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, logTables); err != nil {
		return nil, closing(err, db)
	}
	if s.UniqueID {
		if _, err := db.pool.Exec(ctx, logUnique); err != nil {
			return nil, closing(err, db)
		}
	}
	_, err = db.pool.Exec(ctx, "INSERT INTO cursors SELECT n, 0 FROM generate_series(0, $1::integer - 1) AS n", s.Partitions)
	if err != nil {
		return nil, closing(err, db)
	}
	session := &pgxLogSession{database: db, partitions: make([]logPartition, s.Partitions)}
	session.writes.of, session.reads.of = s.Partitions, s.Partitions
	return session, nil
}

type pgxLogSession struct {
	*database
	partitions    []logPartition
	writes, reads turns
}

type logPartition struct {
	write sync.Mutex // from taking sequences to the commit
	high  int64      // the last sequence committed

	read   sync.Mutex // held by the consumer that is at it
	cursor int64
}

// Append implements Session.
func (s *pgxLogSession) Append(ctx context.Context, batch []Event) error {
	times := make([]time.Time, len(batch))
	ids, keys, types, payloads := make([]string, len(batch)), make([]string, len(batch)), make([]string, len(batch)), make([]string, len(batch))
	for i := range batch {
		e := &batch[i]
		times[i], ids[i], keys[i], types[i], payloads[i] = e.Time, e.ID, e.Key, e.Type, string(e.Payload)
	}
	n := s.writes.take()
	p := &s.partitions[n]
	p.write.Lock()
	defer p.write.Unlock()
	_, err := s.pool.Exec(ctx, logInsert, p.high, n, times, ids, keys, types, payloads)
	if err == nil {
		p.high += int64(len(batch))
	}
	return err
}

// Subscribe implements Session; the positions start at zero.
func (*pgxLogSession) Subscribe(context.Context) error { return nil }

// Consume implements Session.
func (s *pgxLogSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	poll := time.NewTicker(logPoll)
	defer poll.Stop()
	for {
		first := s.reads.take()
		for i := range s.partitions {
			n, err := s.consume(ctx, (first+i)%len(s.partitions), limit, handle)
			if n > 0 || err != nil {
				return n, err
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// consume takes a batch from one partition, unless another consumer is at it.
func (s *pgxLogSession) consume(ctx context.Context, partition, limit int, handle func([]byte)) (n int, err error) {
	p := &s.partitions[partition]
	if !p.read.TryLock() {
		return 0, nil
	}
	defer p.read.Unlock()
	rows, err := s.pool.Query(ctx, logRead, partition, p.cursor, limit)
	if err != nil {
		return 0, err
	}
	var at time.Time
	var id, key, kind string
	var metadata, payload []byte
	cursor := p.cursor
	_, err = pgx.ForEachRow(rows, []any{&cursor, &at, &id, &key, &kind, &metadata, &payload}, func() error {
		handle(payload)
		n++
		return nil
	})
	if n == 0 || err != nil {
		return 0, err
	}
	if _, err := s.pool.Exec(ctx, logAdvance, partition, cursor); err != nil {
		return 0, err
	}
	p.cursor = cursor
	return n, nil
}

// Flush implements Session: every Consume has committed already.
func (*pgxLogSession) Flush(context.Context) error { return nil }
