package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/postgres"
)

// The host owns the pool, and closes it after the instance.
func Example() {
	run := func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
		if err != nil {
			return err
		}
		defer pool.Close()
		backend, err := postgres.New(pool, nil)
		if err != nil {
			return err
		}
		instance, err := rheo.New(backend, nil)
		if err != nil {
			return err
		}
		defer instance.Close()
		if err := instance.EnsureSchema(ctx); err != nil {
			return err
		}
		err = instance.CreateStream(ctx, "orders", rheo.StreamConfig{Partitions: 8})
		if err != nil && !errors.Is(err, rheo.ErrAlreadyExists) {
			return err
		}
		_, err = instance.Append(ctx, "orders", rheo.Event{Key: "alice", Type: "order.placed"})
		return err
	}
	_ = run
}

// An outbox without an outbox table: the order and the event that tells of it are
// committed together, or neither is.
func ExampleAppendTx() {
	placeOrder := func(ctx context.Context, pool *pgxpool.Pool, instance *rheo.Instance, id string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", id); err != nil {
				return err
			}
			_, err := postgres.AppendTx(ctx, instance, tx, "orders", rheo.Event{
				Key: id, Type: "order.placed", Payload: fmt.Appendf(nil, `{"id": %q}`, id),
			})
			return err
		})
	}
	_ = placeOrder
}

// An effect that happens exactly once: what the handler writes and its ack are one
// transaction. If the lease was lost meanwhile, neither is kept.
func ExampleSettleTx() {
	bill := func(ctx context.Context, pool *pgxpool.Pool, instance *rheo.Instance) error {
		leases, err := instance.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10})
		if err != nil {
			return err
		}
		for _, lease := range leases {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", lease.Key); err != nil {
					return err
				}
				results, err := postgres.SettleTx(ctx, instance, tx, rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck})
				return errors.Join(append(results, err)...)
			})
			if err != nil && !errors.Is(err, rheo.ErrStaleLease) { // a stale one is somebody else's by now
				return err
			}
		}
		return nil
	}
	_ = bill
}

// The schema for the host's own migration tool.
func ExampleMigrations() {
	write := func() error {
		steps, err := postgres.Migrations(&postgres.Options{Prefix: "events.rheo_"})
		if err != nil {
			return err
		}
		for _, m := range steps {
			name := fmt.Sprintf("rheo_%04d_%s.sql", m.Version, m.Name)
			if err := os.WriteFile(name, []byte(m.SQL), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	_ = write
}
