package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// measurement is one row of the benchmark.
type measurement struct {
	benchRow
	inst *rheo.Instance
	o    *benchOptions

	stream    string
	began     time.Time
	elapsed   time.Duration
	allocs    uint64
	done      atomic.Int64 // events
	latencies []time.Duration
}

const benchGroup = "bench"

func (m *measurement) measure(ctx context.Context) (benchResult, error) {
	m.stream = fmt.Sprintf("%s-%s-%d-%d", m.o.stream, m.operation, m.batch, m.callers)
	if err := m.inst.CreateStream(ctx, m.stream, rheo.StreamConfig{Partitions: m.o.partitions}); err != nil {
		return benchResult{}, err
	}
	if err := m.inst.CreateGroup(ctx, m.stream, benchGroup, rheo.GroupConfig{}); err != nil {
		return benchResult{}, err
	}
	if err := m.run(m, ctx); err != nil {
		return benchResult{}, err
	}
	events := m.done.Load()
	r := benchResult{
		Operation: m.operation, Batch: m.batch, Callers: m.callers, Events: events, Seconds: m.elapsed.Seconds(),
		EventsPerSecond: float64(events) / m.elapsed.Seconds(), AllocsPerEvent: float64(m.allocs) / float64(max(events, 1)),
	}
	if len(m.latencies) > 0 {
		slices.Sort(m.latencies)
		r.P50Milliseconds, r.P99Milliseconds = m.percentile(50), m.percentile(99)
	}
	return r, ctx.Err()
}

func (m *measurement) percentile(p int) *float64 {
	ms := float64(m.latencies[len(m.latencies)*p/100].Microseconds()) / 1000
	return &ms
}

// timed runs f and notes what it took.
func (m *measurement) timed(f func() error) error {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.began = time.Now()
	err := f()
	m.elapsed = time.Since(m.began)
	runtime.ReadMemStats(&after)
	m.allocs = after.Mallocs - before.Mallocs
	return err
}

func (m *measurement) overdue() bool { return time.Since(m.began) >= m.o.limit }

// byCallers runs f in as many goroutines as the row has callers.
func (m *measurement) byCallers(f func(caller int) error) error {
	errs := make([]error, m.callers)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { errs[i] = f(i) })
	}
	callers.Wait()
	return errors.Join(errs...)
}

// events makes n events; without an ID, the library gives each one.
func (m *measurement) events(n int) []rheo.Event {
	events := make([]rheo.Event, n)
	now := time.Now()
	for i := range events {
		events[i] = rheo.Event{Timestamp: now, Payload: m.o.payloadJSON}
	}
	return events
}

// produce appends up to the row's number of events, shared out over the callers.
func (m *measurement) produce(ctx context.Context, appended *atomic.Int64) error {
	var claimed atomic.Int64
	return m.byCallers(func(int) error {
		for !m.overdue() {
			end := claimed.Add(int64(m.batch))
			n := min(m.batch, m.o.events-int(end)+m.batch)
			if n <= 0 {
				return nil
			}
			if _, err := m.inst.Append(ctx, m.stream, m.events(n)...); err != nil {
				return err
			}
			appended.Add(int64(n))
		}
		return nil
	})
}

func (m *measurement) append(ctx context.Context) error {
	return m.timed(func() error { return m.produce(ctx, &m.done) })
}

func (m *measurement) fetchAndSettle(ctx context.Context) error {
	const fill = 1000
	for left := m.o.events; left > 0; left -= fill {
		if _, err := m.inst.Append(ctx, m.stream, m.events(min(left, fill))...); err != nil {
			return err
		}
	}
	return m.timed(func() error {
		return m.byCallers(func(caller int) error {
			options := rheo.FetchOptions{Max: m.batch, ConsumerID: "caller-" + strconv.Itoa(caller)}
			for !m.overdue() {
				leases, err := m.inst.Fetch(ctx, m.stream, benchGroup, options)
				if err != nil || len(leases) == 0 {
					return err
				}
				if err := m.inst.Ack(ctx, leases...); err != nil {
					return err
				}
				m.done.Add(int64(len(leases)))
			}
			return nil
		})
	})
}

// handled runs the group while produce runs, and until it has handled what was
// appended.
func (m *measurement) handled(ctx context.Context, handler rheo.Handler, produce func(ctx context.Context) (int64, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan struct{}, 1)
	var target atomic.Int64
	target.Store(-1)
	group, err := rheo.NewGroup(m.inst, rheo.GroupOptions{
		Stream: m.stream, Group: benchGroup, Concurrency: m.o.concurrency, MaxDemand: m.o.maxDemand,
		Handler: func(ctx context.Context, d *rheo.Delivery) error {
			err := handler(ctx, d)
			if m.done.Add(1) == target.Load() {
				all <- struct{}{}
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	var ended error
	running.Go(func() {
		ended = group.Run(ctx)
		cancel()
	})
	appended, err := produce(ctx)
	if err == nil {
		target.Store(appended)
		if m.done.Load() < appended {
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
	}
	cancel() // the last acks go through before Run returns
	running.Wait()
	return errors.Join(err, ended)
}

// cycle appends and handles at the same time.
func (m *measurement) cycle(ctx context.Context) error {
	latencies := make([]time.Duration, m.o.events)
	var next atomic.Int64
	err := m.timed(func() error {
		return m.handled(ctx, func(_ context.Context, d *rheo.Delivery) error {
			if i := next.Add(1); int(i) <= len(latencies) {
				latencies[i-1] = time.Since(d.Timestamp)
			}
			return nil
		}, func(ctx context.Context) (int64, error) {
			var appended atomic.Int64
			err := m.produce(ctx, &appended)
			return appended.Load(), err
		})
	})
	m.latencies = latencies[:min(int(next.Load()), len(latencies))]
	return err
}

// latency appends one event at a time.
func (m *measurement) latency(ctx context.Context) error {
	arrived := make(chan time.Duration, 1)
	return m.timed(func() error {
		return m.handled(ctx, func(_ context.Context, d *rheo.Delivery) error {
			arrived <- time.Since(d.Timestamp)
			return nil
		}, func(ctx context.Context) (n int64, err error) {
			for ; n < int64(m.o.events) && !m.overdue(); n++ {
				if _, err := m.inst.Append(ctx, m.stream, m.events(1)...); err != nil {
					return n, err
				}
				select {
				case took := <-arrived:
					m.latencies = append(m.latencies, took)
				case <-ctx.Done():
					return n, ctx.Err()
				}
			}
			return n, nil
		})
	})
}
