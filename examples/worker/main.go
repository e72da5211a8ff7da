// Command worker runs a group's handlers until it is told to stop, and then ends
// gracefully: what has begun is finished and settled, what has not is given back.
//
//	go run ./worker                      # under errgroup
//	go run ./worker --supervisor suture  # under suture, which restarts what fails
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/examples/internal/demo"
	"github.com/rheo-go/rheo/rheosuture"
)

func main() { demo.Main(run) }

const (
	stream = "jobs"
	group  = "workers"
)

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	url := demo.StoreFlag(flags)
	supervisor := flags.String("supervisor", "errgroup", "errgroup or suture")
	every := flags.Duration("every", time.Second, "how often to append a job")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return demo.Use(ctx, *url, func(store *demo.Store) error {
		if err := store.Create(ctx, stream, rheo.StreamConfig{Partitions: 4}, map[string]rheo.GroupConfig{group: {}}); err != nil {
			return err
		}
		options := rheo.GroupOptions{
			Stream: stream, Group: group, Concurrency: 4, DrainTimeout: 10 * time.Second,
			Handler: func(_ context.Context, d *rheo.Delivery) error {
				fmt.Fprintf(out, "job %d of partition %d done\n", d.Sequence, d.Partition)
				return nil
			},
		}
		appending := func(ctx context.Context) error { return appendJobs(ctx, store, *every) }
		switch *supervisor {
		case "errgroup":
			return underErrgroup(ctx, store, options, appending)
		case "suture":
			return underSuture(ctx, store, options, appending)
		}
		return fmt.Errorf("--supervisor %q: want errgroup or suture", *supervisor)
	})
}

// underErrgroup ends all when one fails. Run returns only when nothing is in
// flight any more.
func underErrgroup(ctx context.Context, store *demo.Store, o rheo.GroupOptions, appending func(context.Context) error) error {
	worker, err := rheo.NewGroup(store.Instance, o)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return worker.Run(ctx) })
	all.Go(func() error { return appending(ctx) })
	return all.Wait()
}

// underSuture restarts what fails, and starts and stops groups at run time.
func underSuture(ctx context.Context, store *demo.Store, o rheo.GroupOptions, appending func(context.Context) error) error {
	groups := rheosuture.New(store.Instance, nil)
	if err := groups.Start(o); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return ignoreEnd(ctx, groups.Serve(ctx)) })
	all.Go(func() error { return appending(ctx) })
	return all.Wait()
}

// ignoreEnd is err, unless it only says that ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func appendJobs(ctx context.Context, store *demo.Store, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := store.Append(ctx, stream, rheo.Event{Type: "job"}); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
