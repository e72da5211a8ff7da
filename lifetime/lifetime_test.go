package lifetime_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/lifetime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContextEndsWhenClosed(t *testing.T) {
	t.Parallel()
	life := make(lifetime.Context)
	derived, cancel := context.WithCancel(life)
	defer cancel()
	if life.Err() != nil || derived.Err() != nil {
		t.Error("it has ended before it was closed")
	}
	close(life)
	<-derived.Done()
	if !errors.Is(life.Err(), context.Canceled) || !errors.Is(derived.Err(), context.Canceled) {
		t.Errorf("errors %v, %v", life.Err(), derived.Err())
	}
}

func TestCrewIsWaitedFor(t *testing.T) {
	t.Parallel()
	var crew lifetime.Crew
	gate, done := make(chan struct{}), false
	crew.Run(func() {
		<-gate
		done = true
	})
	close(gate)
	crew.End()
	if !done {
		t.Error("End did not wait")
	}
	here := false
	crew.Run(func() { here = true })
	if !here {
		t.Error("after End it did not run at once")
	}
}
