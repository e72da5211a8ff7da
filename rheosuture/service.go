package rheosuture

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/thejerf/suture/v4"

	"github.com/rheo-go/rheo"
)

// Service makes a group a service of the host's own suture supervisor: restarted
// when it fails, but not once it was drained or its instance closed.
func Service(group *rheo.Group) suture.Service { return &supervised{group: group} }

// supervised runs one group under suture's rules.
type supervised struct {
	group      *rheo.Group
	supervisor *suture.Supervisor
	token      suture.ServiceToken
	ended      func() // told when the group has ended for good by itself

	mu      sync.Mutex
	stopped bool
}

// Serve implements suture.Service.
func (s *supervised) Serve(ctx context.Context) error {
	if s.isStopped() {
		return suture.ErrDoNotRestart
	}
	err := s.group.Run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, rheo.ErrClosed) {
		return err
	}
	if s.ended != nil {
		s.ended()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", suture.ErrDoNotRestart, err)
	}
	return suture.ErrDoNotRestart
}

func (s *supervised) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

func (s *supervised) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}
