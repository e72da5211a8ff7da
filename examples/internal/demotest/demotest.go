// Package demotest runs the examples in tests.
package demotest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo/examples/internal/demo"
)

// Output is what a program under test has printed.
type Output struct {
	mu      sync.Mutex
	written bytes.Buffer
	changed chan struct{}
}

// NewOutput returns an empty one.
func NewOutput() *Output { return &Output{changed: make(chan struct{}, 1)} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.written.Write(p)
}

// String returns all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.String()
}

// Await waits until the text has been printed n times.
func (o *Output) Await(t *testing.T, text string, n int) {
	t.Helper()
	const patience = 20 * time.Second
	timeout := time.After(patience)
	for strings.Count(o.String(), text) < n {
		select {
		case <-o.changed:
		case <-timeout:
			t.Fatalf("%q was not printed %d times within %v:\n%s", text, n, patience, o)
		}
	}
}

// Start runs the program beside the test. stop ends it, and fails the test if it
// returned an error.
func Start(t *testing.T, program demo.Program, args ...string) (out *Output, stop func()) {
	t.Helper()
	out = NewOutput()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- program(ctx, args, out) }()
	return out, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
