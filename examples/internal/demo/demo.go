// Package demo is what the examples share: how they open a store, and how they
// end.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/postgres"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// Program is an example: it runs until it is done or ctx ends.
type Program func(ctx context.Context, args []string, out io.Writer) error

// Main runs the program, which an interrupt or SIGTERM ends.
func Main(program Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := program(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// StoreFlag adds the flag that picks the store.
func StoreFlag(flags *flag.FlagSet) *string {
	return flags.String("store", "embedded:rheo-data", "embedded:DIR, memory:, postgres://… or redis://…")
}

// Store is an instance, and the pool it is on if that is PostgreSQL.
type Store struct {
	*rheo.Instance
	Pool *pgxpool.Pool

	closers []func() error
}

// Use calls f with the store of that URL, and closes it then.
func Use(ctx context.Context, url string, f func(*Store) error) error {
	s, err := open(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// open opens the store and makes its schema.
func open(ctx context.Context, url string) (*Store, error) {
	s := new(Store)
	backend, err := s.backend(ctx, url)
	if err == nil {
		s.Instance, err = rheo.New(backend, nil)
	}
	if err == nil {
		s.closers = append(s.closers, s.Instance.Close)
		err = s.EnsureSchema(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// backend opens what the host owns, and Rheo's backend over it.
func (s *Store) backend(ctx context.Context, url string) (rheo.Backend, error) {
	kind, rest, _ := strings.Cut(url, ":")
	switch kind {
	case "memory":
		return memory.New(nil), nil
	case "embedded":
		return embedded.Open(rest, nil)
	case "postgres", "postgresql":
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return nil, err
		}
		s.Pool = pool
		s.closers = append(s.closers, func() error { pool.Close(); return nil })
		return postgres.New(pool, nil)
	case "redis", "rediss":
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(options)
		s.closers = append(s.closers, client.Close)
		return rheoredis.New(client, nil)
	}
	return nil, fmt.Errorf("no store is named by %q: want embedded:DIR, memory:, postgres://… or redis://…", url)
}

// Close closes the instance, and then what it is on.
func (s *Store) Close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// Create makes the stream and groups on it, if they are not there.
func (s *Store) Create(ctx context.Context, stream string, config rheo.StreamConfig, groups map[string]rheo.GroupConfig) error {
	if err := s.CreateStream(ctx, stream, config); err != nil && !errors.Is(err, rheo.ErrAlreadyExists) {
		return err
	}
	for group, config := range groups {
		if err := s.CreateGroup(ctx, stream, group, config); err != nil && !errors.Is(err, rheo.ErrAlreadyExists) {
			return err
		}
	}
	return nil
}
