// Package rheosuture supervises consumer groups with suture
// (github.com/thejerf/suture/v4): groups started and stopped while the host runs,
// each restarted by itself when it fails, all drained when the host stops.
//
// A host that knows its groups beforehand needs less: [Service] wraps a
// [rheo.Group] for a supervisor of its own.
package rheosuture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thejerf/suture/v4"

	"github.com/rheo-go/rheo"
)

// DefaultStopTimeout is how long a group may take to drain: a little more than
// its own default, so that a group ends its handlers before it is given up.
const DefaultStopTimeout = rheo.DefaultDrainTimeout + rheo.DefaultSettleTimeout

// Options configures a [GroupSupervisor]. The zero value, or a nil pointer, takes
// every default.
type Options struct {
	// Logger takes what happens to the groups. Default [slog.Default].
	Logger *slog.Logger
	// StopTimeout bounds how long Stop, or the end of Serve, waits for a group.
	// Default [DefaultStopTimeout].
	StopTimeout time.Duration
	// FailureBackoff is how long a group that failed five times in short order
	// pauses before the next restart. Default 15 s.
	FailureBackoff time.Duration
}

// GroupSupervisor runs any number of groups of one instance. It is safe for
// concurrent use. It is itself a suture.Service; the host calls Serve.
type GroupSupervisor struct {
	instance *rheo.Instance
	options  Options
	root     *suture.Supervisor

	mu     sync.Mutex
	groups map[Identity]*supervised
}

// Identity names a group of the instance.
type Identity struct{ Stream, Group string }

func (id Identity) String() string { return id.Stream + "/" + id.Group }

// New returns a supervisor without groups.
func New(instance *rheo.Instance, opts *Options) *GroupSupervisor {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.StopTimeout = cmp.Or(o.StopTimeout, DefaultStopTimeout)
	o.FailureBackoff = cmp.Or(o.FailureBackoff, 15*time.Second)
	s := &GroupSupervisor{instance: instance, options: o, groups: make(map[Identity]*supervised)}
	s.root = suture.New("rheo groups", s.spec(o.StopTimeout+time.Second))
	return s
}

func (s *GroupSupervisor) spec(timeout time.Duration) suture.Spec {
	return suture.Spec{
		Timeout:        timeout,
		FailureBackoff: s.options.FailureBackoff,
		EventHook: func(e suture.Event) {
			s.options.Logger.Warn("group supervision", "event", e.String())
		},
	}
}

// Serve runs the groups until ctx ends, and then until each has drained. Groups
// started before wait for it.
func (s *GroupSupervisor) Serve(ctx context.Context) error { return s.root.Serve(ctx) }

// Start runs a group from now on. It returns [rheo.ErrAlreadyStarted] if it runs
// already, [rheo.ErrInvalid] for bad options, and [rheo.ErrClosed] once Serve has
// ended.
func (s *GroupSupervisor) Start(options rheo.GroupOptions) error {
	group, err := rheo.NewGroup(s.instance, options)
	if err != nil {
		return err
	}
	id := Identity{options.Stream, options.Group}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[id] != nil {
		return rheo.Errorf(rheo.ErrAlreadyStarted, "group %s is supervised already", id)
	}
	// Each group has a supervisor of its own, so that one that keeps failing
	// pauses itself and no other.
	entry := &supervised{group: group, ended: func() { s.forget(id) }}
	entry.supervisor = suture.New(id.String(), s.spec(s.options.StopTimeout))
	entry.supervisor.Add(entry)
	entry.token = s.root.Add(entry.supervisor)
	if entry.token == (suture.ServiceToken{}) {
		return rheo.Errorf(rheo.ErrClosed, "the supervisor has ended")
	}
	s.groups[id] = entry
	return nil
}

// Stop drains a group and returns when it has ended. It waits no longer than
// until ctx's deadline, or else StopTimeout. A group that is not supervised is
// [rheo.ErrGroupNotFound].
func (s *GroupSupervisor) Stop(ctx context.Context, id Identity) error {
	s.mu.Lock()
	entry := s.groups[id]
	delete(s.groups, id)
	s.mu.Unlock()
	if entry == nil {
		return rheo.Errorf(rheo.ErrGroupNotFound, "group %s is not supervised", id)
	}
	entry.stop()
	timeout := s.options.StopTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	if timeout <= 0 {
		return context.DeadlineExceeded
	}
	err := s.root.RemoveAndWait(entry.token, timeout)
	if errors.Is(err, suture.ErrSupervisorNotRunning) || errors.Is(err, suture.ErrSupervisorNotStarted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping group %s: %w", id, err)
	}
	return nil
}

// Groups lists what is supervised, sorted.
func (s *GroupSupervisor) Groups() []Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]Identity, 0, len(s.groups))
	for id := range s.groups {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b Identity) int {
		return cmp.Or(strings.Compare(a.Stream, b.Stream), strings.Compare(a.Group, b.Group))
	})
	return ids
}

func (s *GroupSupervisor) forget(id Identity) {
	s.mu.Lock()
	entry := s.groups[id]
	delete(s.groups, id)
	s.mu.Unlock()
	if entry != nil {
		_ = s.root.Remove(entry.token) // it has ended already
	}
}
