package rheowatermill_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheowatermill"
)

func Example() {
	instance, err := rheo.New(memory.New(nil), nil) // or any other backend
	if err != nil {
		panic(err)
	}
	defer instance.Close()
	publisher, err := rheowatermill.NewPublisher(instance, rheowatermill.PublisherConfig{})
	if err != nil {
		panic(err)
	}
	subscriber, err := rheowatermill.NewSubscriber(instance, rheowatermill.SubscriberConfig{Group: "billing"})
	if err != nil {
		panic(err)
	}
	defer subscriber.Close()

	placed := message.NewMessage("order-1", []byte(`{"total": 12}`))
	placed.Metadata.Set("type", "order.placed")
	if err := publisher.Publish("orders", placed); err != nil {
		panic(err)
	}
	messages, err := subscriber.Subscribe(context.Background(), "orders")
	if err != nil {
		panic(err)
	}
	m := <-messages
	lease := rheowatermill.Lease(m.Context())
	fmt.Printf("%s %s, attempt %d, sequence %d\n", m.UUID, m.Payload, lease.Attempt, lease.Sequence)
	m.Ack()
	// Output: order-1 {"total": 12}, attempt 1, sequence 1
}

// A handler that knows that trying again is of no use says so.
func ExampleReject() {
	handle := func(m *message.Message) {
		if len(m.Payload) == 0 {
			rheowatermill.Reject(m, errors.New("an order without an order"))
			return
		}
		m.Ack()
	}
	_ = handle
}
