package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// A subject is a backend under test with the verbs that the cases are written
// in. A verb fails the test if the call fails, and so belongs to the test's own
// goroutine; others call s.in.
type subject struct {
	*testing.T
	config  Config
	backend rheo.Backend
	in      *rheo.Instance
	clock   *Clock
	stream  string // the case's own stream
	filled  map[int]int
	ctx     context.Context //nolint:containedctx // as the testing.T has one, which it shadows
}

func open(t *testing.T, c Config) *subject {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.Timeout, 2*time.Minute))
	t.Cleanup(cancel)
	s := &subject{
		T: t, config: c, clock: NewClock(), filled: make(map[int]int), ctx: ctx,
		stream: strings.ReplaceAll(t.Name(), "/", "-"),
	}
	s.use(c.Open(t, s.clock))
	t.Cleanup(func() {
		if err := s.in.Close(); err != nil {
			t.Errorf("closing the backend: %v", err)
		}
	})
	s.noError(s.in.EnsureSchema(ctx))
	return s
}

// Context ends with the case, or when that has taken too long: a backend that
// loses or repeats events must not keep a case going for ever.
func (s *subject) Context() context.Context { return s.ctx }

// use makes b the backend that the verbs work on.
func (s *subject) use(b rheo.Backend) {
	s.Helper()
	s.backend, s.in = b, s.instance(b, rheo.Options{})
}

func (s *subject) instance(b rheo.Backend, o rheo.Options) *rheo.Instance {
	s.Helper()
	o.Clock, o.Logger = s.clock, slog.New(slog.NewTextHandler(io.Discard, nil))
	in, err := rheo.New(b, &o)
	s.noError(err)
	return in
}

// reopen closes the store and opens it again, as a new process would.
func (s *subject) reopen() {
	s.Helper()
	if s.config.Reopen == nil {
		s.Fatal("the backend declares itself durable, but Config.Reopen is nil")
	}
	s.use(s.config.Reopen(s.T, s.backend, s.clock))
	s.noError(s.in.EnsureSchema(s.Context()))
}

func (s *subject) require(needs []need) {
	s.Helper()
	for _, n := range needs {
		if n.name == needsSharing.name && s.config.Join != nil {
			continue // SQLite, say, is shared by processes, though not by machines
		}
		if n.name == needsSharing.name && n.met(s.backend.Capabilities()) {
			s.Fatal("the backend declares itself distributed, but Config.Join is nil")
		}
		if !n.met(s.backend.Capabilities()) {
			s.Skipf("the backend lacks the capability %s", n.name)
		}
	}
}

// survive, deferred, makes a panic the failure of this case alone.
func (s *subject) survive() {
	if r := recover(); r != nil {
		s.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// scaled returns how many of n events to use.
func (s *subject) scaled(n int) int {
	if s.config.Scale == 0 {
		return n
	}
	return max(1, int(math.Round(float64(n)*s.config.Scale)))
}

// together runs f(0) to f(n-1) at the same time and fails with the first error.
func (s *subject) together(n int, f func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
				}
			}()
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	s.noError(errors.Join(errs...))
}

func (s *subject) noError(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

var sentinels = []error{
	rheo.ErrStreamNotFound, rheo.ErrGroupNotFound, rheo.ErrAlreadyExists, rheo.ErrConflict, rheo.ErrStaleLease,
	rheo.ErrReceiptMismatch, rheo.ErrCursorNotFound, rheo.ErrAlreadyDraining, rheo.ErrAlreadyStarted,
	rheo.ErrUnsupported, rheo.ErrUnavailable, rheo.ErrAmbiguous, rheo.ErrFailed, rheo.ErrInvalid,
	rheo.ErrConfirmRequired, rheo.ErrClosed,
}

// fails checks that err wraps that sentinel and no other.
func (s *subject) fails(what string, err, sentinel error) {
	s.Helper()
	for _, other := range sentinels {
		if errors.Is(err, other) != (other == sentinel) { //nolint:errorlint // two sentinels are compared, not what wraps them
			s.Fatalf("%s: the error is %v, want one that wraps %q and no other sentinel", what, err, sentinel)
		}
	}
}

// invalid checks that err is ErrInvalid and that its message names the field.
func (s *subject) invalid(what string, err error, field string) {
	s.Helper()
	s.fails(what, err, rheo.ErrInvalid)
	if !strings.Contains(err.Error(), field) {
		s.Fatalf("%s: the error %q does not name %q", what, err, field)
	}
}

func equal[T comparable](s *subject, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func equalList[T comparable](s *subject, what string, got, want []T) {
	s.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			s.Fatalf("%s: differ from place %d on\n got %v\nwant %v", what, i, clip(got, i), clip(want, i))
		}
	}
}

// clip shortens a list to what surrounds the place, to be read by people.
func clip[T any](list []T, place int) string {
	from, to := min(len(list), max(0, place-20)), min(len(list), place+20)
	return fmt.Sprintf("%v (%d of %d)", list[from:to], to-from, len(list))
}

// near allows a store to keep its own times to the millisecond.
func (s *subject) near(what string, got, want time.Time) {
	s.Helper()
	if got.Sub(want).Abs() > time.Millisecond {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
