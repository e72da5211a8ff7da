package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

// WatermillRedis is Watermill's Pub/Sub on Redis Streams: a batch is one Publish. Each
// subscriber hands out one message at a time, and the next when it is acked.
type WatermillRedis struct {
	Server      Server
	Subscribers int
}

// Name implements Subject.
func (s WatermillRedis) Name() string { return fmt.Sprintf("watermill-redisstream-%d", s.Subscribers) }

// Confirms implements Subject.
func (WatermillRedis) Confirms() string { return everySecond }

// Open implements Subject.
func (s WatermillRedis) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openRedis(ctx, s.Server, poolSize+s.Subscribers)
	if err != nil {
		return nil, err
	}
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: db.client}, watermill.NopLogger{})
	if err != nil {
		return nil, closing(err, db)
	}
	return &watermillRedisSession{
		redisDatabase: db, publisher: publisher, subscribers: s.Subscribers, messages: make(chan *message.Message),
	}, nil
}

type watermillRedisSession struct {
	*redisDatabase
	publisher   *redisstream.Publisher
	subscribers int
	open        []*redisstream.Subscriber
	messages    chan *message.Message
	stop        context.CancelFunc
}

// Append implements Session.
func (s *watermillRedisSession) Append(_ context.Context, batch []Event) error {
	messages := make([]*message.Message, len(batch))
	for i := range batch {
		e := &batch[i]
		messages[i] = message.NewMessage(e.ID, e.Payload)
		messages[i].Metadata = message.Metadata{"key": e.Key, "type": e.Type, "time": e.Time.Format(time.RFC3339Nano)}
	}
	return s.publisher.Publish(watermillTopic, messages...)
}

// Subscribe implements Session.
func (s *watermillRedisSession) Subscribe(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // until Close
	if err := s.client.XGroupCreateMkStream(ctx, watermillTopic, watermillGroup, "0").Err(); err != nil {
		return err
	}
	for i := range s.subscribers {
		subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: s.client, ConsumerGroup: watermillGroup, Consumer: fmt.Sprint(i), DisableIndefiniteInitialBlock: true,
		}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		s.open = append(s.open, subscriber)
		messages, err := subscriber.Subscribe(ctx, watermillTopic)
		if err != nil {
			return err
		}
		go s.pass(ctx, messages)
	}
	return nil
}

// pass hands on what a subscription brings, and acks it when it was taken: so all of
// them are at work, however few consume.
func (s *watermillRedisSession) pass(ctx context.Context, messages <-chan *message.Message) {
	for m := range messages {
		select {
		case s.messages <- m:
			m.Ack()
		case <-ctx.Done():
			m.Nack()
		}
	}
}

// Consume implements Session.
func (s *watermillRedisSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
	select {
	case m := <-s.messages:
		handle(m.Payload)
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Flush implements Session: the last acks are sent after they were given.
func (s *watermillRedisSession) Flush(ctx context.Context) error {
	return drained(ctx, func() (int64, error) {
		pending, err := s.client.XPending(ctx, watermillTopic, watermillGroup).Result()
		if err != nil {
			return 0, err
		}
		return pending.Count, nil
	})
}

// Close implements Session.
func (s *watermillRedisSession) Close() error {
	if s.stop != nil {
		s.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropPatience)
	defer cancel()
	err := s.client.FlushDBAsync(ctx).Err()
	for _, subscriber := range s.open { // the first of them closes the client
		if closed := subscriber.Close(); !errors.Is(closed, redis.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	if closed := s.client.Close(); !errors.Is(closed, redis.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}
