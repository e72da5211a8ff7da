package backendtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// Benchmark measures a backend as its users meet it: appends by batch and
// callers, fetch and settle, and the whole cycle through a Group with the time
// from append to handler. open returns a fresh, empty backend, closed by the
// benchmark. Figures are per event; events/s is reported beside them.
func Benchmark(b *testing.B, open func(b *testing.B) rheo.Backend) {
	for _, batch := range []int{1, 100} {
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("append/batch=%d/callers=%d", batch, callers), func(b *testing.B) {
				benchmarkAppend(newBench(b, open, 1), batch, callers)
			})
		}
	}
	for _, partitions := range []int{1, 8} {
		b.Run(fmt.Sprintf("fetch+settle/batch=100/partitions=%d", partitions), func(b *testing.B) {
			benchmarkFetchSettle(newBench(b, open, partitions))
		})
	}
	for _, concurrency := range []int{1, 10} {
		b.Run(fmt.Sprintf("group/concurrency=%d", concurrency), func(b *testing.B) {
			benchmarkGroup(newBench(b, open, 1), concurrency)
		})
	}
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("cycle/batch=100/callers=%d", callers), func(b *testing.B) {
			benchmarkCycle(newBench(b, open, callers), callers)
		})
	}
	b.Run("latency", func(b *testing.B) { benchmarkLatency(newBench(b, open, 1)) })
}

type bench struct {
	*testing.B
	rheo    *rheo.Instance
	payload []byte
}

const (
	benchStream = "bench"
	benchGroup  = "group"
)

func newBench(b *testing.B, open func(b *testing.B) rheo.Backend, partitions int) *bench {
	b.Helper()
	instance, err := rheo.New(open(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := instance.Close(); err != nil {
			b.Error(err)
		}
	})
	ctx := b.Context()
	if err := instance.EnsureSchema(ctx); err != nil {
		b.Fatal(err)
	}
	if err := instance.CreateStream(ctx, benchStream, rheo.StreamConfig{Partitions: partitions}); err != nil {
		b.Fatal(err)
	}
	if err := instance.CreateGroup(ctx, benchStream, benchGroup, rheo.GroupConfig{}); err != nil {
		b.Fatal(err)
	}
	return &bench{B: b, rheo: instance, payload: benchPayload()}
}

// benchPayload is 200 bytes of JSON.
func benchPayload() []byte {
	payload := []byte(`{"text":"`)
	for len(payload) < 198 {
		payload = append(payload, byte('a'+len(payload)%26))
	}
	return append(payload, `"}`...)
}

// events returns n events without keys, which spread over the partitions.
func (b *bench) events(n int) []rheo.Event {
	events := make([]rheo.Event, n)
	for i := range events {
		events[i] = rheo.Event{Type: "bench", Payload: b.payload}
	}
	return events
}

// fill appends n events in large batches.
func (b *bench) fill(n int) {
	const most = 1000
	for left := n; left > 0; left -= most {
		if _, err := b.rheo.Append(b.Context(), benchStream, b.events(min(left, most))...); err != nil {
			b.Fatal(err)
		}
	}
}

// report gives events per second for one event an iteration.
func (b *bench) report() {
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportAllocs()
}

// share splits N events over callers in batches and waits for them.
func (b *bench) share(callers, batch int, do func(n int) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				n := min(int64(batch), left.Add(-int64(batch))+int64(batch))
				if n <= 0 {
					return
				}
				if err := do(int(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func benchmarkAppend(b *bench, batch, callers int) {
	b.ResetTimer()
	b.share(callers, batch, func(n int) error {
		_, err := b.rheo.Append(b.Context(), benchStream, b.events(n)...)
		return err
	})
	b.report()
}

func benchmarkFetchSettle(b *bench) {
	b.fill(b.N)
	b.ResetTimer()
	for done := 0; done < b.N; {
		leases, err := b.rheo.Fetch(b.Context(), benchStream, benchGroup, rheo.FetchOptions{Max: 100})
		if err != nil {
			b.Fatal(err)
		}
		if err := b.rheo.Ack(b.Context(), leases...); err != nil {
			b.Fatal(err)
		}
		done += len(leases)
	}
	b.report()
}

// consume runs a Group until it has handled b.N events.
func (b *bench) consume(concurrency int, handle func(*rheo.Delivery)) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var handled atomic.Int64
	group, err := rheo.NewGroup(b.rheo, rheo.GroupOptions{
		Stream: benchStream, Group: benchGroup, Concurrency: concurrency, MaxDemand: 1000,
		Handler: func(_ context.Context, d *rheo.Delivery) error {
			handle(d)
			if handled.Add(1) == int64(b.N) {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		b.Error(err)
		return
	}
	if err := group.Run(ctx); err != nil {
		b.Error(err)
	}
}

func benchmarkGroup(b *bench, concurrency int) {
	b.fill(b.N)
	b.ResetTimer()
	b.consume(concurrency, func(*rheo.Delivery) {})
	b.report()
}

// benchmarkCycle appends and consumes at the same time.
func benchmarkCycle(b *bench, callers int) {
	b.ResetTimer()
	var appending sync.WaitGroup
	appending.Go(func() {
		b.share(callers, 100, func(n int) error {
			_, err := b.rheo.Append(b.Context(), benchStream, b.events(n)...)
			return err
		})
	})
	b.consume(10, func(*rheo.Delivery) {})
	appending.Wait()
	b.report()
}

// benchmarkLatency appends one event at a time, each when the one before has been
// handled, and reports the time from append to handler.
func benchmarkLatency(b *bench) {
	taken := make([]time.Duration, 0, b.N)
	handled := make(chan struct{})
	var appended time.Time
	var appending sync.WaitGroup
	b.ResetTimer()
	appending.Go(func() {
		for range b.N {
			appended = time.Now()
			if _, err := b.rheo.Append(b.Context(), benchStream, b.events(1)...); err != nil {
				b.Error(err)
				return
			}
			<-handled
		}
	})
	b.consume(1, func(*rheo.Delivery) {
		taken = append(taken, time.Since(appended))
		handled <- struct{}{}
	})
	appending.Wait()
	b.report()
	slices.Sort(taken)
	b.ReportMetric(float64(taken[len(taken)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds()), "p99-µs")
}
