package rheo_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rheo-go/rheo"
)

// produce runs a producer on a stream of these events until ctx ends.
func produce(ctx context.Context, ids ...string) (producer *rheo.Producer, ended <-chan error) {
	r := open(ctx)
	for _, id := range ids {
		if _, err := r.Append(ctx, "orders", rheo.Event{ID: id}); err != nil {
			panic(err)
		}
	}
	producer, err := rheo.NewProducer(r, rheo.ProducerOptions{Stream: "orders", Group: "billing", MaxDemand: 100})
	if err != nil {
		panic(err)
	}
	running := make(chan error)
	go func() { running <- producer.Run(ctx) }()
	return producer, running
}

// A pipeline pulls what it has room for, and settles what is durable.
func ExampleProducer() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	producer, ended := produce(ctx, "a", "b", "c")

	window, err := producer.Receive(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a window of", len(window), "in flight", producer.InFlight())
	fmt.Println("acked:", producer.Ack(ctx, window...))

	stop() // drains: nothing is in flight
	fmt.Println("Run:", <-ended)
	_, err = producer.Receive(context.Background(), 1)
	fmt.Println("closed:", errors.Is(err, rheo.ErrClosed))
	// Output:
	// a window of 2 in flight 2
	// acked: <nil>
	// Run: <nil>
	// closed: true
}

// Leave the loop whenever it suits: what is held beyond that is given back.
func ExampleProducer_All() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	producer, ended := produce(ctx, "a", "b", "c")

	handle := func(ctx context.Context, l *rheo.Lease) error {
		fmt.Println(l.ID, ctx.Err())
		return nil
	}
	for lease, err := range producer.All(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		// The context ends if the lease is lost.
		err = handle(producer.Context(ctx, lease), lease)
		if err := producer.Finish(ctx, lease, err); err != nil {
			fmt.Println("not settled:", err)
		}
		if lease.ID == "b" {
			break
		}
	}
	stop()
	fmt.Println("Run:", <-ended)
	// Output:
	// a <nil>
	// b <nil>
	// Run: <nil>
}
