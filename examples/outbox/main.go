// Command outbox is an HTTP service that takes orders, and tells others of them
// without an outbox table, a poller or a broker.
//
//	go run ./outbox                       # the order is its event, in ./rheo-data
//	go run ./outbox --store postgres://…  # the order's row and its event in one transaction
//	curl -d '{"id":"o-1","item":"tea","total":12}' http://127.0.0.1:8080/orders
//
// On PostgreSQL the row and the event are committed together, or neither is; on
// the other stores the log itself is where orders are kept. A request that is
// repeated, because its answer was lost, changes nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/examples/internal/demo"
	"github.com/rheo-go/rheo/postgres"
)

func main() { demo.Main(run) }

const stream = "orders"

// Order is what a customer sends.
type Order struct {
	ID    string  `json:"id"`
	Item  string  `json:"item"`
	Total float64 `json:"total"`
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("outbox", flag.ContinueOnError)
	url := demo.StoreFlag(flags)
	address := flags.String("listen", "127.0.0.1:8080", "the address to serve at")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return demo.Use(ctx, *url, func(store *demo.Store) error {
		if err := prepare(ctx, store); err != nil {
			return err
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *address)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "taking orders at http://%s/orders\n", listener.Addr())
		return serve(ctx, store, listener, out)
	})
}

func prepare(ctx context.Context, store *demo.Store) error {
	if store.Pool != nil {
		const table = "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, item text NOT NULL, total numeric NOT NULL)"
		if _, err := store.Pool.Exec(ctx, table); err != nil {
			return err
		}
	}
	return store.Create(ctx, stream, rheo.StreamConfig{Partitions: 4}, map[string]rheo.GroupConfig{"mailer": {}})
}

// serve serves and mails until ctx ends.
func serve(ctx context.Context, store *demo.Store, listener net.Listener, out io.Writer) error {
	mailer, err := rheo.NewGroup(store.Instance, rheo.GroupOptions{
		Stream: stream, Group: "mailer", Concurrency: 4,
		Handler: rheo.Handle(func(_ context.Context, d *rheo.Delivery, o Order) error {
			fmt.Fprintf(out, "mail: order %s, %s for %.2f (attempt %d)\n", o.ID, o.Item, o.Total, d.Attempt)
			return nil
		}),
	})
	if err != nil {
		return err
	}
	const slowest = 5 * time.Second
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) { take(store, w, r) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: slowest}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return mailer.Run(ctx) })
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowest)
		defer cancel()
		return server.Shutdown(ending)
	})
	return all.Wait()
}

func take(store *demo.Store, w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil || o.ID == "" {
		http.Error(w, "send an order as JSON, with an id", http.StatusBadRequest)
		return
	}
	if err := place(r.Context(), store, o); err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, rheo.ErrInvalid) {
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// place takes the order and tells of it, both or neither.
func place(ctx context.Context, store *demo.Store, o Order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	placed := rheo.Event{ID: o.ID, Type: "order.placed", Payload: payload}
	if store.Pool == nil {
		_, err := store.Append(ctx, stream, placed)
		return err
	}
	return pgx.BeginFunc(ctx, store.Pool, func(tx pgx.Tx) error {
		const insert = "INSERT INTO orders (id, item, total) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
		if _, err := tx.Exec(ctx, insert, o.ID, o.Item, o.Total); err != nil {
			return err
		}
		_, err := postgres.AppendTx(ctx, store.Instance, tx, stream, placed)
		return err
	})
}
