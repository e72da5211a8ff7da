package mongotest_test

import (
	"context"
	"fmt"
	"net/url"

	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// exampleURL is a server's, where no test is at hand to fail.
func exampleURL() (string, error) {
	if named := realURL(); named != "" {
		return named, nil
	}
	s := &servers[0]
	s.once.Do(func() { s.err = s.start() })
	return "mongodb://" + url.QueryEscape(s.address) + "/", s.err
}

// openShop is what a service does when it starts.
func openShop(ctx context.Context, database *driver.Database) (*rheo.Instance, error) {
	backend, err := mongo.New(database, &mongo.Options{Prefix: freshPrefix()})
	if err != nil {
		return nil, err
	}
	in, err := rheo.New(backend, nil)
	if err != nil {
		return nil, err
	}
	if err := in.EnsureSchema(ctx); err != nil {
		return nil, err
	}
	if err := in.CreateStream(ctx, "orders", rheo.StreamConfig{Partitions: 4}); err != nil {
		return nil, err
	}
	if err := in.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
		return nil, err
	}
	return in, nil
}

func Example() {
	err := func() (err error) {
		ctx := context.Background()
		uri, err := exampleURL()
		if err != nil {
			return err
		}
		client, err := driver.Connect(options.Client().ApplyURI(uri))
		if err != nil {
			return err
		}
		defer func() { _ = client.Disconnect(ctx) }()
		in, err := openShop(ctx, client.Database(databaseName()))
		if err != nil {
			return err
		}
		defer in.Close()
		order := rheo.Event{ID: "o-1", Key: "alice", Type: "order.placed", Payload: []byte(`{"total": 9223372036854775807, "$note": "a.b"}`)}
		for range 2 { // the second time, the log holds it already
			results, err := in.Append(ctx, "orders", order)
			if err != nil {
				return err
			}
			fmt.Println(results[0].Sequence, results[0].Duplicate)
		}
		leases, err := in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10})
		if err != nil {
			return err
		}
		for _, l := range leases {
			fmt.Println(l.Attempt, string(l.Payload))
		}
		if err := in.Ack(ctx, leases...); err != nil {
			return err
		}
		lag, err := in.Lag(ctx, "orders", "billing")
		fmt.Println("lag", lag.Lag)
		return err
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 false
	// 1 true
	// 1 {"total": 9223372036854775807, "$note": "a.b"}
	// lag 0
}
