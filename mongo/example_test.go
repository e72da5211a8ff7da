package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	rheomongo "github.com/rheo-go/rheo/mongo"
)

// The host owns the client, and disconnects it after the instance is closed.
func Example() {
	run := func(ctx context.Context) error {
		client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGO_URL")))
		if err != nil {
			return err
		}
		defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
		backend, err := rheomongo.New(client.Database("shop"), nil)
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

// On a replica set: the order and the event that tells of it are committed
// together, or neither is. The driver repeats the transaction where another append
// came first.
func ExampleAppendSession() {
	placeOrder := func(ctx context.Context, session *mongo.Session, orders *mongo.Collection, instance *rheo.Instance, id string) error {
		_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			if _, err := orders.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
				return nil, err
			}
			return rheomongo.AppendSession(ctx, instance, session, "orders", rheo.Event{
				Key: id, Type: "order.placed", Payload: fmt.Appendf(nil, `{"id": %q}`, id),
			})
		})
		return err
	}
	_ = placeOrder
}

// On a replica set: what the handler writes and its ack are one.
func ExampleSettleSession() {
	invoice := func(ctx context.Context, session *mongo.Session, invoices *mongo.Collection, instance *rheo.Instance, lease *rheo.Lease) error {
		_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			if _, err := invoices.InsertOne(ctx, bson.D{{Key: "order", Value: lease.Key}}); err != nil {
				return nil, err
			}
			results, err := rheomongo.SettleSession(ctx, instance, session, rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck})
			return nil, errors.Join(append(results, err)...) // a stale lease aborts: somebody else has the event
		})
		return err
	}
	_ = invoice
}

// For a host that makes its indexes with a tool of its own.
func ExampleIndexes() {
	indexes, err := rheomongo.Indexes(nil)
	if err != nil {
		panic(err)
	}
	for _, i := range indexes[:3] {
		fmt.Println(i.Collection, i.Name, i.Keys, i.Unique)
	}
	// Output:
	// rheo_log place {"stream":{"$numberInt":"1"},"partition":{"$numberInt":"1"},"first":{"$numberInt":"1"}} true
	// rheo_log end {"stream":{"$numberInt":"1"},"partition":{"$numberInt":"1"},"last":{"$numberInt":"1"},"first":{"$numberInt":"1"}} false
	// rheo_log ids {"stream":{"$numberInt":"1"},"partition":{"$numberInt":"1"},"ids":{"$numberInt":"1"}} false
}
