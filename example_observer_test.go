package rheo_test

import (
	"context"
	"fmt"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

// appends counts what is appended, and says in each event where it comes from.
type appends struct{ appended, duplicates int }

func (a *appends) StartOperation(ctx context.Context, _ rheo.OperationStart) context.Context {
	return ctx
}

func (a *appends) EndOperation(_ context.Context, end rheo.OperationEnd) {
	if end.Operation == rheo.OperationAppend {
		a.appended += end.Done
		a.duplicates += end.Duplicates
	}
}

func (a *appends) StartAppend(ctx context.Context, _ rheo.AppendStart) (context.Context, map[string]string) {
	return ctx, map[string]string{rheo.MetadataProducer: "checkout"}
}

func (a *appends) EndAppend(context.Context, rheo.AppendEnd) {}

var _ rheo.AppendObserver = (*appends)(nil)

// An observer implements as much as it wants to know. This one is called by one
// goroutine only; others must be safe for concurrent use.
func ExampleObserver() {
	ctx := context.Background()
	observer := &appends{}
	r, err := rheo.New(memory.New(nil), &rheo.Options{Observer: observer})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		results, err := r.Append(ctx, "orders", rheo.Event{ID: "order-17"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("from", results[0].Producer())
	}
	fmt.Println("appended", observer.appended, "duplicates", observer.duplicates)
	// Output:
	// from checkout
	// from checkout
	// appended 1 duplicates 1
}
