package bench

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

// GoChannel is Watermill's in-process Pub/Sub: publish, subscribe, ack. It has
// no group; consumers here share one subscription, which hands out one message
// at a time.
type GoChannel struct{}

// Name implements Subject.
func (GoChannel) Name() string { return "gochannel" }

// Confirms implements Subject.
func (GoChannel) Confirms() string { return "in memory" }

const (
	goChannelTopic = "bench"
	// goChannelWindow bounds the messages published and not yet acked. GoChannel
	// itself starts two goroutines for each and has no bound.
	goChannelWindow = 1000
)

// Open implements Subject. Without a subscriber GoChannel drops what is
// published unless it is persistent, so appending alone measures it as such: a
// copy into a slice.
func (GoChannel) Open(context.Context, string) (Session, error) {
	return &goChannelSession{
		pubsub: gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{}),
	}, nil
}

type goChannelSession struct {
	pubsub   *gochannel.GoChannel
	messages <-chan *message.Message // nil without a subscription
	window   chan struct{}           // one element per message published and not yet acked
	end      context.CancelFunc      // of the subscription
}

// Subscribe implements Session: it goes over to a GoChannel as one uses it,
// which keeps no messages.
func (s *goChannelSession) Subscribe(ctx context.Context) error {
	if err := s.pubsub.Close(); err != nil {
		return err
	}
	config := gochannel.Config{OutputChannelBuffer: goChannelWindow}
	s.pubsub = gochannel.NewGoChannel(config, watermill.NopLogger{})
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx)) // until Close
	messages, err := s.pubsub.Subscribe(ctx, goChannelTopic)
	if err != nil {
		return err
	}
	s.messages, s.window = messages, make(chan struct{}, goChannelWindow)
	return nil
}

// Append implements Session.
func (s *goChannelSession) Append(ctx context.Context, batch []Event) error {
	messages := make([]*message.Message, len(batch))
	for i := range batch {
		messages[i] = message.NewMessage(batch[i].ID, batch[i].Payload)
	}
	if s.messages == nil {
		return s.pubsub.Publish(goChannelTopic, messages...)
	}
	for i := range messages {
		select {
		case s.window <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.pubsub.Publish(goChannelTopic, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// Consume implements Session.
func (s *goChannelSession) Consume(ctx context.Context, _ int, handle func([]byte)) (int, error) {
	select {
	case m, open := <-s.messages:
		if !open {
			return 0, errors.New("the subscription has ended")
		}
		handle(m.Payload)
		m.Ack()
		<-s.window
		return 1, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Flush implements Session: an ack is known at once.
func (*goChannelSession) Flush(context.Context) error { return nil }

// Close implements Session.
func (s *goChannelSession) Close() error {
	err := s.pubsub.Close()
	if s.end != nil {
		s.end()
	}
	return err
}
