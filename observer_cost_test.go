package rheo

import (
	"context"
	"testing"
)

// uncalled is a backend that is never called.
type uncalled struct{ Backend }

// Not parallel: AllocsPerRun counts what the whole process allocates.
func TestNothingAttachedCostsNothing(t *testing.T) {
	backend := &uncalled{}
	r, err := New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.backend != Backend(backend) {
		t.Error("the backend is wrapped, though nobody observes")
	}
	options := consumerOptions{Stream: "stream", Group: "group"}.withDefaults(r)
	report := newReporter(r, KindGroup, &options)
	ack := &Settlement{Lease: &Lease{}, Outcome: OutcomeAck}
	ctx := t.Context()
	for name, call := range map[string]func(){
		"a wakeup":     func() { report.observe(ctx, RuntimeWoken, func(e *RuntimeEvent) { e.Wake = WakePoll }) },
		"a settlement": func() { report.settled(ctx, ack) },
		"no loss":      func() { report.lost(ctx, nil) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}

	run := &groupRun{
		consumer: newConsumer(r, KindGroup, options, nil, nil),
		handler:  func(context.Context, *Delivery) error { return nil },
	}
	d := &delivered{}
	bare := testing.AllocsPerRun(100, func() {
		_, cancel := context.WithCancelCause(ctx)
		cancel(nil)
	})
	handled := testing.AllocsPerRun(100, func() {
		*d = delivered{}
		if _, counts := run.handle(ctx, d); !counts {
			t.Error("the outcome does not count")
		}
	})
	if handled > bare {
		t.Errorf("a handler's call allocates %v times, its context alone %v", handled, bare)
	}
}
