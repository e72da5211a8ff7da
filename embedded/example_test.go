package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
)

// use opens the store in a directory for as long as f takes.
func use(dir string, f func(*rheo.Instance) error) error {
	store, err := embedded.Open(dir, nil)
	if err != nil {
		return err
	}
	in, err := rheo.New(store, nil)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	return errors.Join(f(in), in.Close())
}

// A store is a directory. What was appended to it and settled is there when it is
// opened again.
func Example() {
	ctx := context.Background()
	produce := func(in *rheo.Instance) error {
		if err := in.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
			return err
		}
		if err := in.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
			return err
		}
		_, err := in.Append(ctx, "orders",
			rheo.Event{Type: "placed", Payload: []byte(`{"id":1}`)},
			rheo.Event{Type: "placed", Payload: []byte(`{"id":2}`)})
		return err
	}
	consume := func(in *rheo.Instance) error {
		leases, err := in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{})
		if err != nil {
			return err
		}
		for _, lease := range leases {
			fmt.Printf("%s, attempt %d\n", lease.Payload, lease.Attempt)
		}
		return in.Ack(ctx, leases...)
	}

	dir, err := os.MkdirTemp("", "rheo")
	if err == nil {
		err = errors.Join(use(dir, produce), use(dir, consume), use(dir, consume), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"id":1}, attempt 1
	// {"id":2}, attempt 1
}
