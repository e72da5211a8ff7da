package bench

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"
)

// Asynq is github.com/hibiken/asynq, a task queue on Redis: it has no call for a batch,
// so that each event is one Enqueue; the server runs 64 handlers at a time.
type Asynq struct{ Server Server }

// Name implements Subject.
func (Asynq) Name() string { return "asynq" }

// Confirms implements Subject.
func (Asynq) Confirms() string { return everySecond }

const (
	asynqTask    = "order.placed"
	asynqQueue   = "default"
	asynqWorkers = 64
)

// Open implements Subject.
func (s Asynq) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openRedis(ctx, s.Server, poolSize)
	if err != nil {
		return nil, err
	}
	o := asynq.RedisClientOpt{Addr: db.options.Addr, DB: db.options.DB, PoolSize: poolSize + asynqWorkers}
	return &asynqSession{
		redisDatabase: db, options: o, client: asynq.NewClient(o), inspector: asynq.NewInspector(o), payloads: make(chan []byte),
	}, nil
}

type asynqSession struct {
	*redisDatabase
	options   asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	server    *asynq.Server
	payloads  chan []byte
}

// Append implements Session.
func (s *asynqSession) Append(ctx context.Context, batch []Event) error {
	for i := range batch {
		task := asynq.NewTask(asynqTask, batch[i].AppendRecord(nil))
		if _, err := s.client.EnqueueContext(ctx, task, asynq.TaskID(batch[i].ID)); err != nil {
			return err
		}
	}
	return nil
}

// Subscribe implements Session.
func (s *asynqSession) Subscribe(context.Context) error {
	s.server = asynq.NewServer(s.options, asynq.Config{Concurrency: asynqWorkers, LogLevel: asynq.FatalLevel})
	return s.server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		payload, err := recordPayload(t.Payload())
		if err != nil {
			return err
		}
		select {
		case s.payloads <- payload:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
}

// Consume implements Session.
func (s *asynqSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
	select {
	case payload := <-s.payloads:
		handle(payload)
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Flush implements Session: a task is taken off the queue after its handler.
func (s *asynqSession) Flush(ctx context.Context) error {
	return drained(ctx, func() (int64, error) {
		info, err := s.inspector.GetQueueInfo(asynqQueue)
		if err != nil {
			return 0, err
		}
		return int64(info.Size), nil
	})
}

// Close implements Session.
func (s *asynqSession) Close() error {
	if s.server != nil {
		s.server.Shutdown()
	}
	return errors.Join(s.client.Close(), s.inspector.Close(), s.redisDatabase.Close())
}
