package bench

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River is a job queue in PostgreSQL: a batch is one InsertMany, an event a job
// that does nothing, worked by River's own client with many workers and short
// intervals. It completes jobs in batches, behind.
type River struct{ Server Server }

// Name implements Subject.
func (River) Name() string { return "river" }

// Confirms implements Subject.
func (River) Confirms() string { return perBatch }

const (
	riverWorkers  = 1000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverStop     = 10 * time.Second
	// riverLeft asks whether there is a job that is not completed; an index has the
	// states.
	riverLeft = `SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending'))`
)

// riverArgs are what a job keeps of an event.
type riverArgs struct {
	ID      string          `json:"id"`
	Key     string          `json:"key"`
	Type    string          `json:"type"`
	Time    time.Time       `json:"time"`
	Payload json.RawMessage `json:"payload"`
}

// Kind implements [river.JobArgs].
func (riverArgs) Kind() string { return "event" }

// Open implements Subject.
func (s River) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openDatabase(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(db.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return nil, closing(err, db)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, closing(err, db)
	}
	client, err := river.NewClient(driver, &river.Config{Logger: quiet()})
	if err != nil {
		return nil, closing(err, db)
	}
	return &riverSession{database: db, client: client}, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

type riverSession struct {
	*database
	client    *river.Client[pgx.Tx]
	delivered chan []byte
	stop      func() error // nil without a subscription
}

// Append implements Session.
func (s *riverSession) Append(ctx context.Context, batch []Event) error {
	jobs := make([]river.InsertManyParams, len(batch))
	for i := range batch {
		e := &batch[i]
		jobs[i].Args = riverArgs{ID: e.ID, Key: e.Key, Type: e.Type, Time: e.Time, Payload: e.Payload}
	}
	_, err := s.client.InsertMany(ctx, jobs)
	return err
}

// Subscribe implements Session: it goes over to a client that also works.
func (s *riverSession) Subscribe(ctx context.Context) error {
	s.delivered = make(chan []byte, riverWorkers)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[riverArgs]) error {
		select {
		case s.delivered <- job.Args.Payload:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		Logger: quiet(), Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // until Close
	if err := client.Start(ctx); err != nil {
		return err
	}
	s.client = client
	s.stop = func() error {
		ctx, cancel := context.WithTimeout(ctx, riverStop)
		defer cancel()
		return client.StopAndCancel(ctx)
	}
	return nil
}

// Consume implements Session: it takes what workers have delivered.
func (s *riverSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	select {
	case payload := <-s.delivered:
		handle(payload)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for n := 1; ; n++ {
		if n == limit {
			return n, nil
		}
		select {
		case payload := <-s.delivered:
			handle(payload)
		default:
			return n, nil
		}
	}
}

// Flush implements Session: it waits until all jobs are completed.
func (s *riverSession) Flush(ctx context.Context) error { return s.settled(ctx, riverLeft) }

// Close implements Session.
func (s *riverSession) Close() (err error) {
	if s.stop != nil {
		err = s.stop()
	}
	return errors.Join(err, s.database.Close())
}
