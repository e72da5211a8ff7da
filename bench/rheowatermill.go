package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/postgres"
	"github.com/rheo-go/rheo/rheowatermill"
)

// RheoWatermill is Watermill's Pub/Sub over a backend of Rheo: a batch is one
// Publish. As in [GoChannel] and [WatermillSQL], consumers share one subscription,
// which hands out one message at a time.
type RheoWatermill struct {
	Memory bool   // instead of PostgreSQL
	Server Server // PostgreSQL's
}

// Name implements Subject.
func (s RheoWatermill) Name() string {
	if s.Memory {
		return "rheo/watermill-memory"
	}
	return "rheo/watermill-postgres"
}

// Confirms implements Subject.
func (s RheoWatermill) Confirms() string {
	if s.Memory {
		return "in memory"
	}
	return perCommit
}

// Open implements Subject.
func (s RheoWatermill) Open(ctx context.Context, _ string) (Session, error) {
	session := new(rheoWatermillSession)
	var backend rheo.Backend = memory.New(nil)
	if !s.Memory {
		db, err := openDatabase(ctx, s.Server)
		if err != nil {
			return nil, err
		}
		session.database = db
		if backend, err = postgres.New(db.pool, nil); err != nil {
			return nil, closing(err, db)
		}
	}
	if err := session.open(ctx, backend); err != nil {
		return nil, closing(err, session)
	}
	return session, nil
}

type rheoWatermillSession struct {
	*database  // nil in memory
	instance   *rheo.Instance
	publisher  *rheowatermill.Publisher
	subscriber *rheowatermill.Subscriber
	messages   <-chan *message.Message
}

func (s *rheoWatermillSession) open(ctx context.Context, backend rheo.Backend) (err error) {
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	if s.instance, err = rheo.New(backend, &rheo.Options{Logger: logger}); err != nil {
		return err
	}
	if err := s.instance.EnsureSchema(ctx); err != nil {
		return err
	}
	if s.publisher, err = rheowatermill.NewPublisher(s.instance, rheowatermill.PublisherConfig{}); err != nil {
		return err
	}
	s.subscriber, err = rheowatermill.NewSubscriber(s.instance, rheowatermill.SubscriberConfig{Group: rheoGroup, Logger: logger})
	return err
}

// LogPosition implements writesAhead.
func (s *rheoWatermillSession) LogPosition(ctx context.Context) (int64, error) {
	if s.database == nil {
		return 0, nil
	}
	return s.database.LogPosition(ctx)
}

// Append implements Session.
func (s *rheoWatermillSession) Append(_ context.Context, batch []Event) error {
	messages := make([]*message.Message, len(batch))
	for i := range batch {
		e := &batch[i]
		messages[i] = message.NewMessage(e.ID, e.Payload)
		messages[i].Metadata = message.Metadata{"key": e.Key, "type": e.Type}
	}
	return s.publisher.Publish(rheoStream, messages...)
}

// Subscribe implements Session.
func (s *rheoWatermillSession) Subscribe(ctx context.Context) (err error) {
	s.messages, err = s.subscriber.Subscribe(context.WithoutCancel(ctx), rheoStream) // until Close
	return err
}

// Consume implements Session.
func (s *rheoWatermillSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
	select {
	case m, open := <-s.messages:
		if !open {
			return 0, errors.New("the subscription has ended")
		}
		handle(m.Payload)
		m.Ack()
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Flush implements Session: the last acks are settled after they were given.
func (s *rheoWatermillSession) Flush(ctx context.Context) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		lag, err := s.instance.Lag(ctx, rheoStream, rheoGroup)
		if err != nil || lag.Lag == 0 {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements Session.
func (s *rheoWatermillSession) Close() (err error) {
	if s.subscriber != nil {
		err = errors.Join(s.subscriber.Close(), s.publisher.Close())
	}
	if s.instance != nil {
		err = errors.Join(err, s.instance.Close())
	}
	if s.database != nil {
		err = errors.Join(err, s.database.Close())
	}
	return err
}
