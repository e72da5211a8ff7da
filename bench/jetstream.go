package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream is NATS JetStream with its server in this process: a file store, a
// durable pull consumer with explicit acks, and one in-process connection that
// all callers share. A batch is published asynchronously and then all of its
// acknowledgements are awaited; messages carry no Nats-Msg-Id, which would make
// the server look for duplicates.
type JetStream struct {
	// SyncAlways makes the server sync every write before it acknowledges it.
	// Without it, it syncs every two minutes.
	SyncAlways bool
}

// Name implements Subject.
func (j JetStream) Name() string {
	if j.SyncAlways {
		return "jetstream-sync"
	}
	return "jetstream"
}

// Confirms implements Subject.
func (j JetStream) Confirms() string {
	if j.SyncAlways {
		return "fsync per event"
	}
	return "fsync in 2 min"
}

const (
	jetStreamName    = "bench"
	jetStreamSubject = "bench.events"
	// jetStreamAckPending is above anything the callers hold at once.
	jetStreamAckPending = 100_000
	// jetStreamStart bounds what the server takes to come up.
	jetStreamStart = 10 * time.Second
)

// Open implements Subject.
func (j JetStream) Open(ctx context.Context, dir string) (Session, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "bench",
		DontListen: true, // no socket: the connection is in-process
		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: j.SyncAlways,
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return nil, err
	}
	srv.Start()
	s := &jetStreamSession{srv: srv}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type jetStreamSession struct {
	srv      *server.Server
	conn     *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	consumer jetstream.Consumer
}

func (s *jetStreamSession) connect(ctx context.Context) (err error) {
	if !s.srv.ReadyForConnections(jetStreamStart) {
		return fmt.Errorf("the NATS server was not ready in %v", jetStreamStart)
	}
	if s.conn, err = nats.Connect("", nats.InProcessServer(s.srv)); err != nil {
		return err
	}
	if s.js, err = jetstream.New(s.conn); err != nil {
		return err
	}
	s.stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:     jetStreamName,
		Subjects: []string{jetStreamSubject},
		Storage:  jetstream.FileStorage,
	})
	return err
}

// Append implements Session.
func (s *jetStreamSession) Append(ctx context.Context, batch []Event) error {
	futures := make([]jetstream.PubAckFuture, len(batch))
	for i := range batch {
		record := batch[i].AppendRecord(make([]byte, 0, PayloadSize+80))
		future, err := s.js.PublishAsync(jetStreamSubject, record)
		if err != nil {
			return err
		}
		futures[i] = future
	}
	for _, future := range futures {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Subscribe implements Session.
func (s *jetStreamSession) Subscribe(ctx context.Context) (err error) {
	s.consumer, err = s.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       "consumer",
		AckPolicy:     jetstream.AckExplicitPolicy,
		MaxAckPending: jetStreamAckPending,
	})
	return err
}

// Consume implements Session. It takes what is there, and waits only for a
// first message: waiting for a full batch would hold up the end of a run.
func (s *jetStreamSession) Consume(ctx context.Context, limit int, handle func([]byte)) (int, error) {
	messages, err := s.consumer.FetchNoWait(limit)
	if err != nil {
		return 0, err
	}
	n, err := ackAll(messages, handle)
	if n > 0 || err != nil {
		return n, err
	}
	if messages, err = s.consumer.Fetch(1, jetstream.FetchContext(ctx)); err != nil {
		return 0, err
	}
	if n, err = ackAll(messages, handle); n > 0 {
		return n, err
	}
	return 0, errors.Join(err, ctx.Err())
}

// ackAll handles and acks each message of the batch. An ack is sent, and not
// waited for; Flush does that.
func ackAll(messages jetstream.MessageBatch, handle func([]byte)) (int, error) {
	n := 0
	for m := range messages.Messages() {
		payload, err := recordPayload(m.Data())
		if err != nil {
			return n, err
		}
		handle(payload)
		if err := m.Ack(); err != nil {
			return n, err
		}
		n++
	}
	return n, messages.Error()
}

// Flush implements Session: it waits until the server has taken all acks.
func (s *jetStreamSession) Flush(ctx context.Context) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		info, err := s.consumer.Info(ctx)
		if err != nil {
			return err
		}
		if info.NumAckPending == 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements Session.
func (s *jetStreamSession) Close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	return nil
}
