package rheowatermill_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/rheo-go/rheo/rheowatermill"
)

// A router with Watermill's retry and poison queue works as its users expect: a
// message that fails is retried in place, and then put on the poison topic; what
// it would have been is acked.
func TestRouterWithRetryAndPoisonQueue(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{}, rheowatermill.SubscriberConfig{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	poison, err := middleware.PoisonQueue(ps.publisher, "poison")
	if err != nil {
		t.Fatal(err)
	}
	router.AddMiddleware(poison, middleware.Retry{MaxRetries: 2}.Middleware)
	var tries atomic.Int32
	router.AddHandler("double", "topic", ps.subscriber, "doubled", ps.publisher,
		func(m *message.Message) ([]*message.Message, error) {
			if string(m.Payload) == "bad" {
				tries.Add(1)
				return nil, errors.New("this one never works")
			}
			return message.Messages{message.NewMessage("d-"+m.UUID, append(m.Payload, m.Payload...))}, nil
		})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()

	ps.publish(message.NewMessage("1", []byte("good")), message.NewMessage("2", []byte("bad")), message.NewMessage("3", []byte("fine")))
	results := ps.another(rheowatermill.SubscriberConfig{})
	for topic, want := range map[string][]string{"doubled": {"goodgood", "finefine"}, "poison": {"bad"}} {
		messages, err := results.Subscribe(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, payload := range want {
			m := ps.next(messages)
			if string(m.Payload) != payload {
				t.Errorf("%s: got %q, want %q", topic, m.Payload, payload)
			}
			if topic == "poison" && m.Metadata.Get(middleware.ReasonForPoisonedKey) != "this one never works" {
				t.Errorf("metadata %v", m.Metadata)
			}
			m.Ack()
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if info := ps.settled(); info.Lag() != 0 || tries.Load() != 3 {
		t.Errorf("lag %d after %d tries of the bad one", info.Lag(), tries.Load())
	}
}
