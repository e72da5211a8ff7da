package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	rheoredis "github.com/rheo-go/rheo/redis"
)

// RedisSubjects returns those on a Redis server, as the operator has set it up: the
// tests' own flushes its append-only file every second. The server is asked for when
// the first of them is opened.
func RedisSubjects(server Server) []Subject {
	return []Subject{
		Redis{Server: server, Partitions: 1},
		Redis{Server: server, Partitions: 8},
		Redis{Server: server, Partitions: 8, ByKey: true},

		// Yardsticks.
		RedisLog{Server: server, Partitions: 1},
		RedisLog{Server: server, Partitions: 8},
		WatermillRedis{Server: server, Subscribers: 1},
		WatermillRedis{Server: server, Subscribers: 64},
		Asynq{Server: server},
	}
}

const everySecond = "in memory, fsync per second"

// Redis is rheo/redis on a client of its own, with blocking reads.
type Redis struct {
	Server     Server
	Partitions int
	// ByKey has each event go to its key's partition, so that a batch goes to all
	// of them. Otherwise the partitions take turns, batch by batch, as in RedisLog.
	ByKey bool
}

// Name implements Subject.
func (s Redis) Name() string {
	if s.ByKey {
		return fmt.Sprintf("rheo/redis-%d-by-key", s.Partitions)
	}
	return fmt.Sprintf("rheo/redis-%d", s.Partitions)
}

// Confirms implements Subject.
func (Redis) Confirms() string { return everySecond }

// Open implements Subject.
func (s Redis) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openRedis(ctx, s.Server, poolSize)
	if err != nil {
		return nil, err
	}
	backend, err := rheoredis.New(db.client, nil)
	if err != nil {
		return nil, closing(err, db)
	}
	session, err := openRheo(ctx, backend, s.Partitions)
	if err != nil {
		return nil, closing(err, db)
	}
	if !s.ByKey {
		session.pinned.of = s.Partitions
	}
	return &redisSession{rheoSession: session, redisDatabase: db}, nil
}

type redisSession struct {
	*rheoSession
	*redisDatabase
}

// Close implements Session.
func (s *redisSession) Close() error {
	return errors.Join(s.rheoSession.Close(), s.redisDatabase.Close())
}

// redisDatabase is one subject's own on the server, by its number.
type redisDatabase struct {
	options *redis.Options
	client  *redis.Client
}

var redisDatabases atomic.Int64

// openRedis empties the next database, which Close empties again.
func openRedis(ctx context.Context, server Server, connections int) (*redisDatabase, error) {
	const databases = 15 // as many as a server has, but for the one that people use
	url, err := server(ctx)
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("bench: the server's URL is none of Redis")
	}
	options.DB = int(1 + redisDatabases.Add(1)%databases)
	options.PoolSize = connections
	d := &redisDatabase{options: options, client: redis.NewClient(options)}
	if err := d.client.FlushDB(ctx).Err(); err != nil {
		return nil, closing(err, d)
	}
	return d, nil
}

// Close implements [io.Closer].
func (d *redisDatabase) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dropPatience)
	defer cancel()
	err := d.client.FlushDBAsync(ctx).Err()
	if closed := d.client.Close(); !errors.Is(closed, redis.ErrClosed) { // a peer may have closed it
		err = errors.Join(err, closed)
	}
	return err
}

// drained polls until the count is 0.
func drained(ctx context.Context, count func() (int64, error)) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		n, err := count()
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
