// Command watermill is a Watermill router over Rheo: orders become invoices, what
// fails is retried, and what cannot be done ends on a poison topic.
//
//	go run ./watermill [--store postgres://…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/rheo-go/rheo/examples/internal/demo"
	"github.com/rheo-go/rheo/rheowatermill"
)

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("watermill", flag.ContinueOnError)
	url := demo.StoreFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return demo.Use(ctx, *url, func(store *demo.Store) error {
		publisher, err := rheowatermill.NewPublisher(store.Instance, rheowatermill.PublisherConfig{})
		if err != nil {
			return err
		}
		subscriber, err := rheowatermill.NewSubscriber(store.Instance, rheowatermill.SubscriberConfig{Group: "invoicing"})
		if err != nil {
			return err
		}
		router, err := newRouter(publisher, subscriber, out)
		if err != nil {
			return err
		}
		if err := order(publisher); err != nil {
			return err
		}
		return router.Run(ctx) // until ctx ends; it closes publisher and subscriber
	})
}

func newRouter(publisher message.Publisher, subscriber message.Subscriber, out io.Writer) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	poison, err := middleware.PoisonQueue(publisher, "orders-poison")
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(poison, middleware.Retry{MaxRetries: 2}.Middleware, middleware.Recoverer)
	router.AddHandler("invoice", "orders-to-invoice", subscriber, "invoices", publisher, invoice)
	router.AddConsumerHandler("print", "invoices", subscriber, func(m *message.Message) error {
		fmt.Fprintf(out, "%s\n", m.Payload)
		return nil
	})
	router.AddConsumerHandler("complain", "orders-poison", subscriber, func(m *message.Message) error {
		fmt.Fprintf(out, "%s: %s\n", m.UUID, m.Metadata.Get(middleware.ReasonForPoisonedKey))
		return nil
	})
	return router, nil
}

func invoice(order *message.Message) ([]*message.Message, error) {
	if len(order.Payload) == 0 {
		return nil, errors.New("an order of nothing")
	}
	return message.Messages{message.NewMessage("invoice-for-"+order.UUID, append([]byte("invoice: "), order.Payload...))}, nil
}

// order publishes three orders. Their UUIDs are the same every time, so that the
// second run of this example adds none.
func order(publisher message.Publisher) error {
	return publisher.Publish("orders-to-invoice",
		message.NewMessage("order-1", []byte("tea")),
		message.NewMessage("order-2", nil),
		message.NewMessage("order-3", []byte("cake")))
}
