package rheo_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

// open returns an instance with a stream of one partition and a group on it.
func open(ctx context.Context) *rheo.Instance {
	r, err := rheo.New(memory.New(nil), nil)
	if err != nil {
		panic(err)
	}
	if err := r.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
		panic(err)
	}
	if err := r.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
		panic(err)
	}
	return r
}

// A group handles what is appended, and drains when its context ends.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := open(ctx)

	_, err := r.Append(ctx, "orders",
		rheo.Event{Key: "alice", Type: "order.placed", Payload: []byte(`{"total": 12}`)},
		rheo.Event{Key: "bob", Type: "order.placed", Payload: []byte(`{"total": 7}`)},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	group, err := rheo.NewGroup(r, rheo.GroupOptions{
		Stream: "orders", Group: "billing", Concurrency: 1,
		Handler: func(_ context.Context, d *rheo.Delivery) error {
			fmt.Println(d.Sequence, d.Type, d.Key, string(d.Payload))
			if d.Sequence == 2 {
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := group.Run(ctx); err != nil {
		fmt.Println(err)
	}
	lag, err := r.Lag(context.Background(), "orders", "billing")
	fmt.Println("lag", lag.Lag, err)
	// Output:
	// 1 order.placed alice {"total": 12}
	// 2 order.placed bob {"total": 7}
	// lag 0 <nil>
}

// Appending an ID again returns the stored event and appends nothing.
func ExampleInstance_Append() {
	ctx := context.Background()
	r := open(ctx)
	for range 2 {
		results, err := r.Append(ctx, "orders", rheo.Event{ID: "order-17", Type: "order.placed"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(results[0].ID, results[0].Sequence, results[0].Duplicate)
	}
	// Output:
	// order-17 1 false
	// order-17 1 true
}

// An expected sequence turns an append into compare-and-append.
func ExampleInstance_AppendExpecting() {
	ctx := context.Background()
	r := open(ctx)
	for _, id := range []string{"first", "second"} {
		_, err := r.AppendExpecting(ctx, "orders", rheo.ExpectedSequence{0: 0}, rheo.Event{ID: id})
		fmt.Println(id, "conflict:", errors.Is(err, rheo.ErrConflict))
	}
	// Output:
	// first conflict: false
	// second conflict: true
}

// Fetch and settle are what the runtimes are made of.
func ExampleInstance_Fetch() {
	ctx := context.Background()
	r := open(ctx)
	if _, err := r.Append(ctx, "orders", rheo.Event{ID: "a"}, rheo.Event{ID: "b"}); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := r.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10, LeaseDuration: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := r.Settle(ctx,
		rheo.Settlement{Lease: leases[0], Outcome: rheo.OutcomeAck},
		rheo.Settlement{Lease: leases[1], Outcome: rheo.OutcomeReject, Reason: "no such customer"},
	)
	fmt.Println(results, err)
	fmt.Println("settled twice:", errors.Is(r.Ack(ctx, leases[0]), rheo.ErrStaleLease))
	for dead, err := range r.DeadLetters(ctx, "orders", "billing") {
		fmt.Println(dead.EventID, dead.Reason, err)
	}
	// Output:
	// [<nil> <nil>] <nil>
	// settled twice: true
	// b no such customer <nil>
}

// The log is searchable: by its own fields, by metadata, and into the payload.
func ExampleInstance_QueryAll() {
	ctx := context.Background()
	r := open(ctx)
	_, err := r.Append(ctx, "orders",
		rheo.Event{ID: "a", Type: "order.placed", Payload: []byte(`{"total": 12, "lines": [{"sku": "pen"}]}`)},
		rheo.Event{ID: "b", Type: "order.placed", Payload: []byte(`{"total": 7, "lines": [{"sku": "ink"}]}`)},
		rheo.Event{ID: "c", Type: "order.cancelled"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	query := rheo.Query{Where: []rheo.Condition{
		rheo.Where("type", rheo.OpEq, "order.placed"),
		rheo.Where("total", rheo.OpGe, 10),
		rheo.Where("lines.0.sku", rheo.OpIn, []string{"pen", "pencil"}),
	}}
	for e, err := range r.QueryAll(ctx, "orders", query) {
		fmt.Println(e.ID, err)
	}
	// Output:
	// a <nil>
}

// After a bug is mended, the group is handed again what it got wrong.
func ExampleInstance_Replay() {
	ctx := context.Background()
	r := open(ctx)
	if _, err := r.Append(ctx, "orders", rheo.Event{ID: "a"}, rheo.Event{ID: "b"}, rheo.Event{ID: "c"}); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := r.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Ack(ctx, leases...); err != nil {
		fmt.Println(err)
		return
	}
	opened, err := r.Replay(ctx, "orders", "billing", rheo.ReplaySelection{FromSequence: 2})
	fmt.Println("opened", opened, err)
	again, err := r.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10})
	for _, l := range again {
		fmt.Println(l.ID, "attempt", l.Attempt, err)
	}
	// Output:
	// opened 2 <nil>
	// b attempt 1 <nil>
	// c attempt 1 <nil>
}

// Handlers choose the outcome by what they return.
func ExampleReject() {
	handler := func(_ context.Context, d *rheo.Delivery) error {
		switch {
		case len(d.Payload) == 0:
			return rheo.Reject(errors.New("no payload")) // a dead letter
		case d.Attempt == 1:
			return rheo.RetryAfter(errors.New("warehouse is closed"), time.Hour)
		default:
			return nil // done
		}
	}
	fmt.Println(handler(context.Background(), &rheo.Delivery{Lease: &rheo.Lease{}}))
	// Output: no payload
}
