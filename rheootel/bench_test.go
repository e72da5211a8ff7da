package rheootel_test

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheootel"
)

// discard is an exporter that spans cost nothing beyond the way to it.
type discard struct{}

func (discard) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                          { return nil }

// BenchmarkGroup consumes a stream in memory, in turns without an observer and with
// one, and reports the share of the throughput that observation leaves, by the best
// round of each: what else the machine does is no cost of observation. The handler
// does nothing: any that does something is left a larger share.
func BenchmarkGroup(b *testing.B) {
	sampling := func(sampler trace.Sampler) rheootel.Options {
		traces := trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithBatcher(discard{}))
		b.Cleanup(func() { _ = traces.Shutdown(context.WithoutCancel(b.Context())) })
		return rheootel.Options{TracerProvider: traces, MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))}
	}
	metricsOnly := sampling(trace.NeverSample())
	metricsOnly.TracerProvider = tracenoop.NewTracerProvider()
	tracesOnly := sampling(trace.AlwaysSample())
	tracesOnly.MeterProvider = noop.NewMeterProvider()
	for _, c := range []struct {
		name    string
		options rheootel.Options
		traced  bool // the events were appended under the observer, too
	}{
		{"metrics", metricsOnly, false},
		{"metrics+1%traces", sampling(trace.ParentBased(trace.TraceIDRatioBased(0.01))), false},
		{"metrics+1%traces/of-traced-events", sampling(trace.ParentBased(trace.TraceIDRatioBased(0.01))), true},
		{"metrics+10%traces/of-traced-events", sampling(trace.ParentBased(trace.TraceIDRatioBased(0.1))), true},
		{"metrics+traces/of-traced-events", sampling(trace.AlwaysSample()), true},
		{"traces/of-traced-events", tracesOnly, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			observer, err := rheootel.New(&c.options)
			if err != nil {
				b.Fatal(err)
			}
			var appender rheo.Observer
			if c.traced {
				appender = observer
			}
			const events = 20_000
			plain, observed := time.Hour, time.Hour
			for b.Loop() {
				plain = min(plain, consume(b, nil, nil, events))
				observed = min(observed, consume(b, appender, observer, events))
			}
			b.ReportMetric(plain.Seconds()/observed.Seconds(), "of-throughput")
			b.ReportMetric(events/plain.Seconds(), "plain-events/s")
			b.ReportMetric(events/observed.Seconds(), "observed-events/s")
		})
	}
}

// consume returns how long a group takes to handle n events of a stream that holds
// them already, 100 of them to an append.
func consume(b *testing.B, appender, observer rheo.Observer, n int) time.Duration {
	b.Helper()
	store := memory.New(nil)
	fill(b, instance(b, store, appender), n)
	r := instance(b, store, observer)
	defer r.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(n))
	group, err := rheo.NewGroup(r, rheo.GroupOptions{
		Stream: "orders", Group: "billing", MaxDemand: 1000,
		Handler: func(context.Context, *rheo.Delivery) error {
			if left.Add(-1) == 0 {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC() // what filled the stream is not the group's to clear away
	began := time.Now()
	if err := group.Run(ctx); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func instance(b *testing.B, store rheo.Backend, observer rheo.Observer) *rheo.Instance {
	b.Helper()
	r, err := rheo.New(store, &rheo.Options{Observer: observer, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func fill(b *testing.B, r *rheo.Instance, n int) {
	b.Helper()
	ctx := b.Context()
	if err := r.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
		b.Fatal(err)
	}
	if err := r.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
		b.Fatal(err)
	}
	events := make([]rheo.Event, 100)
	for first := 0; first < n; first += len(events) {
		for at := range events {
			events[at] = rheo.Event{ID: strconv.Itoa(first + at), Type: "order.placed", Payload: []byte(`{"total":12}`)}
		}
		if _, err := r.Append(ctx, "orders", events...); err != nil {
			b.Fatal(err)
		}
	}
}
