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

// server starts PostgreSQL when the first subject asks for it: the tests' own
// throwaway server on the loopback interface, or that of RHEO_TEST_POSTGRES_URL.
func server() bench.Server {
	var once sync.Once
	var url string
	var err error
	return func(ctx context.Context) (string, error) {
		once.Do(func() { url, err = start(ctx) })
		return url, err
	}
}

// start runs what is written for tests, which end their goroutine when they fail.
func start(ctx context.Context) (url string, err error) {
	stand := &standIn{ctx: func() context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		url = testservers.Postgres(stand).URL("postgres")
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
