package redis_test

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// The host owns the client, and closes it after the instance.
func Example() {
	run := func(ctx context.Context) error {
		client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
		defer client.Close()
		backend, err := rheoredis.New(client, nil)
		if err != nil {
			return err
		}
		instance, err := rheo.New(backend, nil)
		if err != nil {
			return err
		}
		defer instance.Close()
		err = instance.CreateStream(ctx, "orders", rheo.StreamConfig{Partitions: 8})
		if err != nil && !errors.Is(err, rheo.ErrAlreadyExists) {
			return err
		}
		_, err = instance.Append(ctx, "orders", rheo.Event{Key: "alice", Type: "order.placed"})
		return err
	}
	_ = run
}

// A cluster: partitions spread over its masters.
func ExampleNew_cluster() {
	open := func() (*rheoredis.Backend, error) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}})
		return rheoredis.New(client, &rheoredis.Options{Prefix: "events"})
	}
	_ = open
}

// At its start a service says what may cost it events.
func ExampleBackend_Advise() {
	start := func(ctx context.Context, backend *rheoredis.Backend) error {
		advice, err := backend.Advise(ctx)
		for _, sentence := range advice {
			slog.WarnContext(ctx, sentence)
		}
		return err
	}
	_ = start
}
