package bench

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

// WatermillSQL is Watermill's Pub/Sub in PostgreSQL, over pgx: a batch is one
// Publish. Consumers here share one subscription, which hands out one message at a
// time and commits the acks of a hundred together; more subscriptions in one group
// would only wait for each other.
type WatermillSQL struct {
	Server Server
	// Queue takes the schema without consumer groups that deletes acked messages,
	// instead of the log with a consumer group.
	Queue bool
}

// Name implements Subject.
func (s WatermillSQL) Name() string {
	if s.Queue {
		return "watermill-sql-queue"
	}
	return "watermill-sql"
}

// Confirms implements Subject.
func (WatermillSQL) Confirms() string { return perBatch }

const (
	watermillTopic = "bench"
	watermillGroup = "consumer"
	watermillPoll  = 5 * time.Millisecond

	watermillQueueLeft = `SELECT EXISTS (SELECT FROM "watermill_bench")`
	watermillLogLeft   = `
SELECT EXISTS (SELECT FROM "watermill_bench" m, "watermill_offsets_bench" o
               WHERE (m.transaction_id, m."offset") > (o.last_processed_transaction_id, o.offset_acked))`
)

// Open implements Subject.
func (s WatermillSQL) Open(ctx context.Context, _ string) (Session, error) {
	db, err := openDatabase(ctx, s.Server)
	if err != nil {
		return nil, err
	}
	session := &watermillSession{database: db, left: watermillLogLeft}
	config := sql.SubscriberConfig{
		ConsumerGroup: watermillGroup, PollInterval: watermillPoll, RetryInterval: watermillPoll,
		SchemaAdapter: sql.DefaultPostgreSQLSchema{}, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{},
	}
	if s.Queue {
		session.left = watermillQueueLeft
		config.ConsumerGroup = ""
		config.SchemaAdapter = sql.PostgreSQLQueueSchema{}
		config.OffsetsAdapter = sql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true}
	}
	if err := session.open(config); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

type watermillSession struct {
	*database
	left       string // whether anything is not yet acked
	publisher  *sql.Publisher
	subscriber *sql.Subscriber
	messages   <-chan *message.Message
}

func (s *watermillSession) open(config sql.SubscriberConfig) (err error) {
	pool := sql.BeginnerFromPgx(s.pool)
	publishing := sql.PublisherConfig{SchemaAdapter: config.SchemaAdapter}
	if s.publisher, err = sql.NewPublisher(pool, publishing, watermill.NopLogger{}); err != nil {
		return err
	}
	if s.subscriber, err = sql.NewSubscriber(pool, config, watermill.NopLogger{}); err != nil {
		return err
	}
	return s.subscriber.SubscribeInitialize(watermillTopic)
}

// Append implements Session.
func (s *watermillSession) Append(_ context.Context, batch []Event) error {
	messages := make([]*message.Message, len(batch))
	for i := range batch {
		e := &batch[i]
		messages[i] = message.NewMessage(e.ID, e.Payload)
		messages[i].Metadata = message.Metadata{"key": e.Key, "type": e.Type, "time": e.Time.Format(time.RFC3339Nano)}
	}
	return s.publisher.Publish(watermillTopic, messages...)
}

// Subscribe implements Session.
func (s *watermillSession) Subscribe(ctx context.Context) (err error) {
	s.messages, err = s.subscriber.Subscribe(context.WithoutCancel(ctx), watermillTopic) // until Close
	return err
}

// Consume implements Session.
func (s *watermillSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
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

// Flush implements Session: the last acks are committed after they were given.
func (s *watermillSession) Flush(ctx context.Context) error { return s.settled(ctx, s.left) }

// Close implements Session.
func (s *watermillSession) Close() (err error) {
	if s.subscriber != nil {
		err = s.subscriber.Close()
	}
	if s.publisher != nil {
		err = errors.Join(err, s.publisher.Close())
	}
	return errors.Join(err, s.database.Close())
}
