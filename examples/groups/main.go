// Command groups has two groups read one stream, each at its own pace: what one
// has done is no business of the other.
//
//	go run ./groups [--store postgres://…]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/examples/internal/demo"
)

func main() { demo.Main(run) }

const (
	stream = "payments"
	events = 100
)

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("groups", flag.ContinueOnError)
	url := demo.StoreFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return demo.Use(ctx, *url, func(store *demo.Store) error {
		groups := map[string]rheo.GroupConfig{"ledger": {Ordering: rheo.OrderingPartition}, "fraud": {}}
		if err := store.Create(ctx, stream, rheo.StreamConfig{Partitions: 4}, groups); err != nil {
			return err
		}
		if err := pay(ctx, store); err != nil {
			return err
		}
		all, ctx := errgroup.WithContext(ctx)
		for group := range groups {
			all.Go(func() error { return consume(ctx, store, group, out) })
		}
		return all.Wait()
	})
}

// pay appends a hundred payments. Their IDs are the same every time, so that the
// second run of this example adds none.
func pay(ctx context.Context, store *demo.Store) error {
	payments := make([]rheo.Event, events)
	for i := range payments {
		payments[i] = rheo.Event{
			ID: fmt.Sprint("payment-", i), Key: fmt.Sprint("account-", i%7), Type: "payment.made",
			Payload: fmt.Appendf(nil, `{"cents": %d}`, 100*i),
		}
	}
	_, err := store.Append(ctx, stream, payments...)
	return err
}

// consume reads what is there for the group, and ends.
func consume(ctx context.Context, store *demo.Store, group string, out io.Writer) error {
	lag, err := store.Lag(ctx, stream, group)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	if lag.Lag == 0 {
		done()
	}
	var seen atomic.Int64
	runtime, err := rheo.NewGroup(store.Instance, rheo.GroupOptions{
		Stream: stream, Group: group, Concurrency: 4,
		Handler: func(context.Context, *rheo.Delivery) error {
			if seen.Add(1) >= lag.Lag {
				done()
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	err = runtime.Run(ctx)
	fmt.Fprintf(out, "%s: %d payments\n", group, seen.Load())
	return err
}
