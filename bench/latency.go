package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Pace is what a latency measurement does: single events, appended one by one at
// a steady rate.
type Pace struct {
	PerSecond int // how many a second
	Events    int // at most 10,000
}

func (p Pace) validate() error {
	switch {
	case p.PerSecond < 1 || p.PerSecond > 10_000:
		return fmt.Errorf("bench: the rate must be 1 to 10,000 events a second, not %d", p.PerSecond)
	case p.Events < 1 || p.Events > distinctPayloads:
		return fmt.Errorf("bench: events of a latency measurement must be 1 to %d, not %d", distinctPayloads, p.Events)
	}
	return nil
}

// Latency is how long events took from the call of Append to their handler.
type Latency struct {
	P50, P99, Max time.Duration
	Late          time.Duration // the most by which an Append began after its time: much of it, and the rate was too high
}

// latencyGrace is how long the last events may take.
const latencyGrace = 10 * time.Second

// MeasureLatency measures one producer and one consumer, idle in between.
func MeasureLatency(ctx context.Context, subject Subject, p Pace) (result Latency, err error) {
	if err := p.validate(); err != nil {
		return Latency{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("bench: measuring the latency of %s: %w", subject.Name(), err)
		}
	}()
	dir, err := os.MkdirTemp("", "rheo-bench-")
	if err != nil {
		return Latency{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	session, err := subject.Open(ctx, dir)
	if err != nil {
		return Latency{}, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if err := session.Subscribe(ctx); err != nil {
		return Latency{}, err
	}
	limit := time.Duration(p.Events)*p.interval() + latencyGrace
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	paced := &paced{pace: p, began: make(map[string]time.Time)}
	err = together(ctx, []worker{
		func(ctx context.Context) error { return paced.produce(ctx, session) },
		func(ctx context.Context) error { return paced.consume(ctx, session) },
	})
	if err != nil {
		return Latency{}, err
	}
	return paced.result(), nil
}

func (p Pace) interval() time.Duration { return time.Second / time.Duration(p.PerSecond) }

// paced is one latency measurement under way.
type paced struct {
	pace Pace
	late time.Duration

	mu    sync.Mutex
	began map[string]time.Time // by canonical payload, which differ
	took  []time.Duration
}

func (r *paced) produce(ctx context.Context, session Session) error {
	events := makeEvents(r.pace.Events)
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range events {
		key := canonical(events[i].Payload)
		due := start.Add(time.Duration(i) * r.pace.interval())
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := time.Now()
		r.late = max(r.late, now.Sub(due))
		r.mu.Lock()
		r.began[key] = now
		r.mu.Unlock()
		if err := session.Append(ctx, events[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *paced) consume(ctx context.Context, session Session) error {
	for handled := 0; handled < r.pace.Events; {
		n, err := session.Consume(ctx, 100, r.handle)
		if err != nil {
			return err
		}
		handled += n
	}
	return session.Flush(ctx)
}

func (r *paced) handle(payload []byte) {
	now := time.Now()
	key := canonical(payload)
	r.mu.Lock()
	defer r.mu.Unlock()
	if began, ok := r.began[key]; ok {
		r.took = append(r.took, now.Sub(began))
	}
}

func (r *paced) result() Latency {
	p50, p99 := percentiles(r.took)
	return Latency{P50: p50, P99: p99, Max: r.took[len(r.took)-1], Late: r.late}
}
