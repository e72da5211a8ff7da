package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/rheo-go/rheo"
)

func contextCases() []testCase {
	return []testCase{
		{name: "a cancelled context ends every call before it changes anything", run: cancelledContext},
		{name: "a context past its deadline does so too", run: deadlineContext},
		{name: "a context that ends meanwhile leaves the store sound", run: contextEndsMeanwhile},
		{name: "a closed instance refuses every call", run: closedInstance},
		{name: "a closed backend refuses every call", run: closedBackend},
		{name: "several instances over one backend", run: severalInstances},
	}
}

// ended runs every call with a context that has ended already.
func (s *subject) ended(ctx context.Context, cause error) {
	s.Helper()
	s.create(1, "g")
	s.fill(0, 3)
	l := s.take("g", 1)[0]
	before := s.snapshot()
	all := append(s.calls(), call{"settling a good lease", onGroup, func(ctx context.Context, in *rheo.Instance, _, _ string) error {
		return in.Ack(ctx, l)
	}}, call{"renewing a good lease", onGroup, func(ctx context.Context, in *rheo.Instance, _, _ string) error {
		_, err := in.Renew(ctx, time.Hour, l)
		return err
	}})
	for _, c := range all {
		err := c.do(ctx, s.in, s.stream, "g")
		if !errors.Is(err, cause) {
			s.Fatalf("%s: the error is %v, want one that wraps %q", c.name, err, cause)
		}
		equal(s, "everything after "+c.name, s.snapshot(), before)
	}
	s.ack(l)
	s.due("g", 2, 3)
}

func cancelledContext(s *subject) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.ended(ctx, context.Canceled)
}

func deadlineContext(s *subject) {
	ctx, cancel := context.WithDeadline(s.Context(), time.Now().Add(-time.Second))
	defer cancel()
	s.ended(ctx, context.DeadlineExceeded)
}

// Contexts end while appends and settles are under way. Whatever is told, an
// append repeated completes, and no event is lost.
func contextEndsMeanwhile(s *subject) {
	s.create(1, "g")
	for i := range s.scaled(40) {
		batch := on(0, name(0, int64(2*i+1)), name(0, int64(2*i+2)))
		ctx, cancel := context.WithCancel(s.Context())
		s.together(2, func(who int) error {
			if who == i%2 {
				cancel()
				return nil
			}
			_, _ = s.in.Append(ctx, s.stream, batch...)
			leases, _ := s.in.Fetch(ctx, s.stream, "g", rheo.FetchOptions{Max: 10})
			_ = s.in.Ack(ctx, leases...)
			return nil
		})
		s.append(batch...)
		equal(s, "events", len(s.read(0)), 2*i+2)
	}
	s.expire()
	s.drain("g")
	equal(s, "lag", s.lag("g"), 0)
}

func closedInstance(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	s.noError(s.in.Close())
	s.noError(s.in.Close())
	for _, c := range s.calls() {
		s.fails(c.name, c.do(s.Context(), s.in, s.stream, "g"), rheo.ErrClosed)
	}
}

// The backend itself refuses, too: another instance over it has not been closed.
func closedBackend(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	other := s.instance(s.backend, rheo.Options{})
	_, err := other.Read(s.Context(), s.stream, 0, 0, 1)
	s.noError(err)
	s.noError(s.in.Close())
	for _, c := range s.calls() {
		if c.name != "Prepare" { // it needs nothing of the store
			s.fails(c.name, c.do(s.Context(), other, s.stream, "g"), rheo.ErrClosed)
		}
	}
}

func severalInstances(s *subject) {
	s.create(1, "g")
	other := s.instance(s.backend, rheo.Options{Name: "other"})
	s.noError(other.CreateStream(s.Context(), "by the other", rheo.StreamConfig{}))
	_, err := s.in.Append(s.Context(), "by the other", event("e1"))
	s.noError(err)
	s.fill(0, 2)
	theirs, err := other.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{})
	s.noError(err)
	equal(s, "leases of the other", len(theirs), 1)
	ours := s.due("g", 2)
	s.ack(theirs...)
	s.noError(other.Ack(s.Context(), ours...))
	equal(s, "lag", s.lag("g"), 0)
	equal(s, "name", other.Name(), "other")
}
