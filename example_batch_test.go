package rheo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rheo-go/rheo"
)

// A window is aggregated, and acked only when the aggregate is durable: a crash in
// between brings its events again, perhaps in other company. So what is saved has
// to tell which events it has counted; examples/window does.
func ExampleBatchHandler() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := open(ctx)
	for _, total := range []string{"12", "7", "30"} {
		if _, err := r.Append(ctx, "orders", rheo.Event{Payload: []byte(total)}); err != nil {
			fmt.Println(err)
			return
		}
	}
	save := func(_ context.Context, orders, total int) error { // to a database, say
		fmt.Println(orders, "orders,", total, "in all")
		return nil
	}
	group, err := rheo.NewGroup(r, rheo.GroupOptions{
		Stream: "orders", Group: "billing", Concurrency: 1, BatchSize: 3,
		BatchHandler: func(ctx context.Context, batch []*rheo.Delivery) []error {
			defer stop()
			orders, sum := 0, 0
			outcomes := make([]error, len(batch))
			for at, d := range batch {
				var total int
				if err := json.Unmarshal(d.Payload, &total); err != nil {
					outcomes[at] = rheo.Reject(err)
					continue
				}
				orders++
				sum += total
			}
			if err := save(ctx, orders, sum); err != nil {
				return slices.Repeat([]error{err}, len(batch))
			}
			return outcomes
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(group.Run(ctx))
	// Output:
	// 3 orders, 49 in all
	// <nil>
}
