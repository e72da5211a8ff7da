package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisLog is a bare log in Redis: a pipeline of one XADD for each event, which goes to
// the stream whose turn it is; a consumer group read by XREADGROUP; and one XACK for
// what was read. Nothing holds duplicates off, counts attempts or fences.
type RedisLog struct {
	Server     Server
	Partitions int
}

// Name implements Subject.
func (s RedisLog) Name() string { return fmt.Sprintf("redis-log-%d", s.Partitions) }

// Confirms implements Subject.
func (RedisLog) Confirms() string { return everySecond }

const (
	redisLogGroup = "consumer"
	redisLogBlock = 5 * time.Millisecond
)

// Open implements Subject.
func (s RedisLog) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openRedis(ctx, s.Server, poolSize)
	if err != nil {
		return nil, err
	}
	session := &redisLogSession{redisDatabase: db}
	for p := range s.Partitions {
		session.streams = append(session.streams, fmt.Sprintf("log:%d", p))
	}
	session.writes.of, session.reads.of = s.Partitions, s.Partitions
	return session, nil
}

type redisLogSession struct {
	*redisDatabase
	streams       []string
	writes, reads turns
}

// Append implements Session.
func (s *redisLogSession) Append(ctx context.Context, batch []Event) error {
	stream := s.streams[s.writes.take()]
	pipeline := s.client.Pipeline()
	for i := range batch {
		pipeline.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: []any{"e", batch[i].AppendRecord(nil)}})
	}
	_, err := pipeline.Exec(ctx)
	return err
}

// Subscribe implements Session.
func (s *redisLogSession) Subscribe(ctx context.Context) error {
	for _, stream := range s.streams {
		if err := s.client.XGroupCreateMkStream(ctx, stream, redisLogGroup, "0").Err(); err != nil {
			return err
		}
	}
	return nil
}

// Consume implements Session.
func (s *redisLogSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	for {
		stream := s.streams[s.reads.take()]
		block := redisLogBlock
		if len(s.streams) > 1 {
			block = -1 // do not wait: another may have some
		}
		found, err := s.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: redisLogGroup, Consumer: redisLogGroup, Streams: []string{stream, ">"}, Count: int64(limit), Block: block,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		if len(found) == 0 || len(found[0].Messages) == 0 {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			continue
		}
		ids := make([]string, len(found[0].Messages))
		for i, m := range found[0].Messages {
			ids[i] = m.ID
			record, _ := m.Values["e"].(string)
			payload, err := recordPayload([]byte(record))
			if err != nil {
				return 0, err
			}
			handle(payload)
		}
		return len(ids), s.client.XAck(ctx, stream, redisLogGroup, ids...).Err()
	}
}

// Flush implements Session; an ack is confirmed when it returns.
func (s *redisLogSession) Flush(context.Context) error { return nil }
