package rheo_test

import (
	"context"
	"fmt"

	"github.com/rheo-go/rheo"
)

// Typed handlers, each for its type of event. What is of no type they know, or does
// not decode, becomes a dead letter that says so.
func ExampleMux() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := open(ctx)
	_, err := r.Append(ctx, "orders",
		rheo.Event{ID: "a", Type: "order.placed", Payload: []byte(`{"total": 12}`)},
		rheo.Event{ID: "b", Type: "order.placed", Payload: []byte(`{"total": "twelve"}`)},
		rheo.Event{ID: "c", Type: "order.lost"},
		rheo.Event{ID: "d", Type: "order.cancelled", Payload: []byte(`"too late"`)},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	type order struct{ Total int }
	mux, err := rheo.NewMux(rheo.RejectUnknown, map[string]rheo.Handler{
		"order.placed": rheo.Handle(func(_ context.Context, _ *rheo.Delivery, o order) error {
			fmt.Println("placed:", o.Total)
			return nil
		}),
		"order.cancelled": rheo.Handle(func(_ context.Context, d *rheo.Delivery, reason string) error {
			fmt.Println("cancelled:", reason, d.Attempt)
			stop()
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	group, err := rheo.NewGroup(r, rheo.GroupOptions{Stream: "orders", Group: "billing", Concurrency: 1, Handler: mux.Handle})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := group.Run(ctx); err != nil {
		fmt.Println(err)
	}
	for dead, err := range r.DeadLetters(context.Background(), "orders", "billing") {
		fmt.Println(dead.EventID, dead.Reason, err)
	}
	// Output:
	// placed: 12
	// cancelled: too late 1
	// b the payload is no rheo_test.order: json: cannot unmarshal string into Go struct field order.Total of type int <nil>
	// c no handler for events of type "order.lost" <nil>
}
