package rheo

import (
	"context"
	"testing"
)

// lastMoment is a context that has ended, in the moment in which done is called.
type lastMoment struct {
	context.Context //nolint:containedctx // it is a context
	done            func()
}

func (m lastMoment) Done() <-chan struct{} {
	m.done()
	return m.Context.Done()
}

// A caller that is served in the moment in which its ctx ends gets its leases:
// nobody else would settle them.
func TestReceiveServedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := newProducerRun(&consumer{flight: newFlight(1, &reporter{})})
	for range 100 {
		d := &delivered{}
		ctx := lastMoment{ended, func() { r.serve([]*delivered{d}) }}
		if received, err := r.receive(ctx, 1); err != nil || len(received) != 1 || received[0] != d {
			t.Fatalf("%v, %v", received, err)
		}
	}
	if _, err := r.receive(ended, 1); err == nil || len(r.requests) != 0 {
		t.Errorf("a request that nobody has served: %v, %d left", err, len(r.requests))
	}
}
