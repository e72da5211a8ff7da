package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/rheo-go/rheo/bench"
	"github.com/rheo-go/rheo/internal/testservers"
)

// postgres is a PostgreSQL server: the tests' own throwaway one on the loopback
// interface, or that of RHEO_TEST_POSTGRES_URL.
func postgres() bench.Server {
	return server(func(tb testing.TB) string {
		tb.Helper()
		return testservers.Postgres(tb).URL("postgres")
	})
}

// redis is a Redis server likewise, or that of RHEO_TEST_REDIS_URL.
func redis() bench.Server {
	return server(func(tb testing.TB) string {
		tb.Helper()
		return testservers.Redis(tb).URL()
	})
}

// server starts one when the first subject asks for it.
func server(get func(testing.TB) string) bench.Server {
	var once sync.Once
	var url string
	var err error
	return func(ctx context.Context) (string, error) {
		once.Do(func() { url, err = start(ctx, get) })
		return url, err
	}
}

// start runs what is written for tests, which end their goroutine when they fail.
func start(ctx context.Context, get func(testing.TB) string) (url string, err error) {
	stand := &standIn{ctx: func() context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		url = get(stand)
	}()
	<-done
	return url, stand.err
}

// standIn is as much of a test as starting a server needs; the rest is nil.
type standIn struct {
	testing.TB
	ctx func() context.Context
	err error
}

func (s *standIn) Helper() {}

func (s *standIn) Context() context.Context { return s.ctx() }

func (s *standIn) Skipf(format string, args ...any) { s.Fatalf(format, args...) }

func (s *standIn) Fatalf(format string, args ...any) {
	s.err = fmt.Errorf(format, args...)
	runtime.Goexit()
}
