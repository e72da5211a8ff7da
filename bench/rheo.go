package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
	"github.com/rheo-go/rheo/memory"
)

// Rheo is one of our own backends, through the public API: what a user's
// appends, fetches and acks cost, with every check on the way.
type Rheo struct {
	Backend    string
	Confirmed  string // see Subject.Confirms
	Partitions int
	Make       func(dir string) (rheo.Backend, error)
}

// Memory is the backend in memory.
func Memory() Rheo {
	return Rheo{
		Backend: "rheo/memory", Confirmed: "in memory", Partitions: 1,
		Make: func(string) (rheo.Backend, error) { return memory.New(nil), nil },
	}
}

// Embedded is the durable default, in a directory.
func Embedded() Rheo {
	return Rheo{
		Backend: "rheo/embedded", Confirmed: "fsync per commit", Partitions: 1,
		Make: func(dir string) (rheo.Backend, error) { return embedded.Open(dir, nil) },
	}
}

// Name implements Subject.
func (s Rheo) Name() string { return s.Backend }

// Confirms implements Subject.
func (s Rheo) Confirms() string { return s.Confirmed }

const (
	rheoStream = "orders"
	rheoGroup  = "bench"
	rheoPoll   = 100 * time.Millisecond
)

// Open implements Subject.
func (s Rheo) Open(ctx context.Context, dir string) (Session, error) {
	backend, err := s.Make(dir)
	if err != nil {
		return nil, err
	}
	return openRheo(ctx, backend, s.Partitions)
}

// openRheo takes the backend over, and makes the stream on it.
func openRheo(ctx context.Context, backend rheo.Backend, partitions int) (*rheoSession, error) {
	instance, err := rheo.New(backend, nil)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	if err = instance.EnsureSchema(ctx); err == nil {
		err = instance.CreateStream(ctx, rheoStream, rheo.StreamConfig{Partitions: partitions})
	}
	if err != nil {
		return nil, errors.Join(err, instance.Close())
	}
	return &rheoSession{instance: instance, waiter: backend.(rheo.Waiter)}, nil
}

type rheoSession struct {
	instance *rheo.Instance
	waiter   rheo.Waiter

	pinned turns // if set, a whole batch goes to the partition whose turn it is; else each event to its key's
}

// Append implements Session.
func (s *rheoSession) Append(ctx context.Context, batch []Event) error {
	events := make([]rheo.Event, len(batch))
	partition := s.pinned.take()
	for i := range batch {
		e := &batch[i]
		events[i] = rheo.Event{
			ID: e.ID, Key: e.Key, Type: e.Type, Timestamp: e.Time, Payload: e.Payload,
			Partition: partition, Pinned: s.pinned.of > 0,
		}
	}
	_, err := s.instance.Append(ctx, rheoStream, events...)
	return err
}

// Subscribe implements Session.
func (s *rheoSession) Subscribe(ctx context.Context) error {
	return s.instance.CreateGroup(ctx, rheoStream, rheoGroup, rheo.GroupConfig{})
}

// Consume implements Session.
func (s *rheoSession) Consume(ctx context.Context, limit int, handle func(payload []byte)) (int, error) {
	leases, err := s.fetch(ctx, limit)
	if err != nil {
		return 0, err
	}
	for _, l := range leases {
		handle(l.Payload)
	}
	return len(leases), s.instance.Ack(ctx, leases...)
}

// fetch waits for at least one lease.
func (s *rheoSession) fetch(ctx context.Context, limit int) ([]*rheo.Lease, error) {
	leases, err := s.instance.Fetch(ctx, rheoStream, rheoGroup, rheo.FetchOptions{Max: limit})
	if err != nil || len(leases) > 0 {
		return leases, err
	}
	hints, stop := s.waiter.Watch(rheoStream)
	defer stop()
	poll := time.NewTicker(rheoPoll) // a hint may be lost, as any
	defer poll.Stop()
	for {
		leases, err := s.instance.Fetch(ctx, rheoStream, rheoGroup, rheo.FetchOptions{Max: limit})
		if err != nil || len(leases) > 0 {
			return leases, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-hints:
		case <-poll.C:
		}
	}
}

// Flush implements Session; an ack is confirmed when it returns.
func (s *rheoSession) Flush(context.Context) error { return nil }

// Close implements Session.
func (s *rheoSession) Close() error { return s.instance.Close() }

// turns hands out the numbers below of, one after another.
type turns struct {
	of   int
	next atomic.Int64
}

// take returns the next; 0 if there is nothing to choose from.
func (t *turns) take() int {
	if t.of == 0 {
		return 0
	}
	return int(t.next.Add(1)-1) % t.of
}
