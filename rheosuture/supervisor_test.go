package rheosuture_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thejerf/suture/v4"
	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheosuture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newInstance(t *testing.T, groups ...string) *rheo.Instance {
	t.Helper()
	instance, err := rheo.New(memory.New(nil), &rheo.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		createGroup(t, instance, g)
	}
	return instance
}

func createGroup(t *testing.T, instance *rheo.Instance, name string) {
	t.Helper()
	if err := instance.CreateGroup(t.Context(), "s", name, rheo.GroupConfig{}); err != nil {
		t.Fatal(err)
	}
}

func appendOne(t *testing.T, instance *rheo.Instance) {
	t.Helper()
	if _, err := instance.Append(t.Context(), "s", rheo.Event{}); err != nil {
		t.Fatal(err)
	}
}

// serve runs the supervisor until stop is called.
func serve(t *testing.T, s *rheosuture.GroupSupervisor) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func counting(name string, handled chan<- string) rheo.GroupOptions {
	return rheo.GroupOptions{
		Stream: "s", Group: name,
		Handler: func(context.Context, *rheo.Delivery) error {
			handled <- name
			return nil
		},
	}
}

func TestGroupsStartAndStopWhileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := newInstance(t, "a", "b")
		supervisor := rheosuture.New(instance, &rheosuture.Options{Logger: quiet})
		handled := make(chan string, 10)
		if err := supervisor.Start(counting("a", handled)); err != nil {
			t.Fatal(err)
		}
		stop := serve(t, supervisor)
		if err := supervisor.Start(counting("b", handled)); err != nil {
			t.Fatal(err)
		}
		if err := supervisor.Start(counting("b", handled)); !errors.Is(err, rheo.ErrAlreadyStarted) {
			t.Errorf("second start: %v", err)
		}
		appendOne(t, instance)
		got := []string{<-handled, <-handled}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("handled by %v", got)
		}
		if err := supervisor.Stop(t.Context(), rheosuture.Identity{Stream: "s", Group: "a"}); err != nil {
			t.Errorf("stop: %v", err)
		}
		if ids := supervisor.Groups(); len(ids) != 1 || ids[0].Group != "b" {
			t.Errorf("after the stop: %v", ids)
		}
		if err := supervisor.Stop(t.Context(), rheosuture.Identity{Stream: "s", Group: "a"}); !errors.Is(err, rheo.ErrGroupNotFound) {
			t.Errorf("second stop: %v", err)
		}
		appendOne(t, instance)
		if name := <-handled; name != "b" {
			t.Errorf("handled by %s after a was stopped", name)
		}
		if err := supervisor.Start(counting("a", handled)); err != nil {
			t.Fatal(err)
		}
		if name := <-handled; name != "a" {
			t.Errorf("handled by %s", name)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		if err := supervisor.Start(counting("c", handled)); !errors.Is(err, rheo.ErrClosed) {
			t.Errorf("start after the end: %v", err)
		}
	})
}

// A group that does not exist yet fails and is restarted, and disturbs no other.
func TestFailingGroupIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := newInstance(t, "healthy")
		supervisor := rheosuture.New(instance, &rheosuture.Options{Logger: quiet})
		stop := serve(t, supervisor)
		handled := make(chan string, 10)
		for _, name := range []string{"late", "healthy"} {
			if err := supervisor.Start(counting(name, handled)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // fake: long enough for late to fail five times and pause
		appendOne(t, instance)
		if name := <-handled; name != "healthy" {
			t.Fatalf("handled by %s", name)
		}
		createGroup(t, instance, "late")
		if name := <-handled; name != "late" {
			t.Fatalf("handled by %s", name)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// Stopping before Serve has begun means that the group never runs.
func TestStopBeforeServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := newInstance(t, "a")
		supervisor := rheosuture.New(instance, &rheosuture.Options{Logger: quiet})
		handled := make(chan string, 1)
		if err := supervisor.Start(counting("a", handled)); err != nil {
			t.Fatal(err)
		}
		if err := supervisor.Stop(t.Context(), rheosuture.Identity{Stream: "s", Group: "a"}); err != nil {
			t.Fatal(err)
		}
		stop := serve(t, supervisor)
		appendOne(t, instance)
		synctest.Wait()
		if len(handled) != 0 {
			t.Error("the stopped group ran")
		}
		_ = stop()
	})
}

// Under the host's own supervisor a drained group is not restarted, and handlers
// finish while the tree stops.
func TestServiceUnderTheHostsSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := newInstance(t, "a")
		appendOne(t, instance)
		began, finish := make(chan struct{}), make(chan struct{})
		group, err := rheo.NewGroup(instance, rheo.GroupOptions{
			Stream: "s", Group: "a",
			Handler: func(context.Context, *rheo.Delivery) error {
				close(began)
				<-finish
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		host := suture.New("host", suture.Spec{EventHook: func(suture.Event) {}, Timeout: time.Minute})
		host.Add(rheosuture.Service(group))
		ctx, cancel := context.WithCancel(t.Context())
		done := host.ServeBackground(ctx)
		<-began
		cancel()
		synctest.Wait()
		close(finish)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("host supervisor: %v", err)
		}
		if lag, err := instance.Lag(t.Context(), "s", "a"); err != nil || lag.Lag != 0 {
			t.Errorf("lag %d, %v: the last ack was lost", lag.Lag, err)
		}
	})
}

func TestDrainedGroupIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := newInstance(t, "a")
		supervisor := rheosuture.New(instance, &rheosuture.Options{Logger: quiet})
		stop := serve(t, supervisor)
		if err := supervisor.Start(counting("a", make(chan string, 1))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := instance.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rheo.DefaultPollInterval) // fake: until the group looks again
		synctest.Wait()
		if ids := supervisor.Groups(); len(ids) != 0 {
			t.Errorf("still supervised: %v", ids)
		}
		_ = stop()
	})
}
