// Command window counts and sums orders by windows of up to a hundred, or of what
// came within a second. A window is acked only when its sum is on disk, so that a
// crash in between brings its orders again; the file names the last order of each
// partition that it has counted, so that none counts twice.
//
//	go run ./window [--store postgres://…] [--sums sums.json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/examples/internal/demo"
)

func main() { demo.Main(run) }

const (
	stream = "orders-to-sum"
	group  = "sums"
	orders = 1000
)

// Sums is the aggregate. In an ordered group a partition's orders come in order,
// so the last sequence of each says what has been counted.
type Sums struct {
	Orders int           `json:"orders"`
	Total  int           `json:"total"`
	Last   map[int]int64 `json:"last"` // by partition
}

// add counts the order, unless it has been counted.
func (s *Sums) add(d *rheo.Delivery, total int) {
	if d.Sequence <= s.Last[d.Partition] {
		return
	}
	s.Orders++
	s.Total += total
	s.Last[d.Partition] = d.Sequence
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("window", flag.ContinueOnError)
	url := demo.StoreFlag(flags)
	path := flags.String("sums", "sums.json", "the file to keep the sums in")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return demo.Use(ctx, *url, func(store *demo.Store) error {
		groups := map[string]rheo.GroupConfig{group: {Ordering: rheo.OrderingPartition}}
		if err := store.Create(ctx, stream, rheo.StreamConfig{Partitions: 4}, groups); err != nil {
			return err
		}
		if err := order(ctx, store); err != nil {
			return err
		}
		sums, err := load(*path)
		if err != nil {
			return err
		}
		if err := aggregate(ctx, store, *path, sums); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d orders, %d in all\n", sums.Orders, sums.Total)
		return nil
	})
}

// order appends a thousand orders, the first time.
func order(ctx context.Context, store *demo.Store) error {
	events := make([]rheo.Event, orders)
	for i := range events {
		events[i] = rheo.Event{ID: fmt.Sprint("order-", i), Payload: fmt.Appendf(nil, `{"total": %d}`, i)}
	}
	_, err := store.Append(ctx, stream, events...)
	return err
}

// aggregate sums what is there, and ends.
func aggregate(ctx context.Context, store *demo.Store, path string, sums *Sums) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	if sums.Orders >= orders {
		done()
	}
	runtime, err := rheo.NewGroup(store.Instance, rheo.GroupOptions{
		Stream: stream, Group: group, Concurrency: 1, MaxDemand: 200,
		BatchSize: 100, BatchWait: time.Second,
		BatchHandler: func(_ context.Context, window []*rheo.Delivery) []error {
			outcomes := make([]error, len(window))
			for i, d := range window {
				var o struct {
					Total int `json:"total"`
				}
				if err := json.Unmarshal(d.Payload, &o); err != nil {
					outcomes[i] = rheo.Reject(err)
					continue
				}
				sums.add(d, o.Total)
			}
			if err := save(path, sums); err != nil {
				for i := range outcomes {
					outcomes[i] = err // all of it again
				}
			}
			if sums.Orders >= orders {
				done()
			}
			return outcomes
		},
	})
	if err != nil {
		return err
	}
	return runtime.Run(ctx)
}

func load(path string) (*Sums, error) {
	sums := &Sums{Last: make(map[int]int64)}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sums, nil
	}
	if err != nil {
		return nil, err
	}
	return sums, json.Unmarshal(data, sums)
}

// save puts the sums on disk, whole or not at all.
func save(path string, sums *Sums) error {
	data, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}
