package rheootel_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheootel"
)

// process is one of those that share a store: an instance, and what its observer
// has exported.
type process struct {
	*rheo.Instance
	t        *testing.T
	observer *rheootel.Observer
	spans    *tracetest.InMemoryExporter
	metrics  *metric.ManualReader
}

// newProcess takes the options over, but for the providers.
func newProcess(t *testing.T, store rheo.Backend, options rheootel.Options) *process {
	t.Helper()
	p := &process{t: t, spans: tracetest.NewInMemoryExporter(), metrics: metric.NewManualReader()}
	options.TracerProvider = trace.NewTracerProvider(trace.WithSyncer(p.spans))
	options.MeterProvider = metric.NewMeterProvider(metric.WithReader(p.metrics))
	var err error
	if p.observer, err = rheootel.New(&options); err != nil {
		t.Fatal(err)
	}
	p.Instance, err = rheo.New(store, &rheo.Options{Observer: p.observer, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// createGroup makes the stream orders, and its group billing.
func (p *process) createGroup(config rheo.GroupConfig) {
	p.t.Helper()
	p.must(p.CreateStream(p.t.Context(), "orders", rheo.StreamConfig{}))
	p.must(p.CreateGroup(p.t.Context(), "orders", "billing", config))
}

func (p *process) append(ctx context.Context, ids ...string) {
	p.t.Helper()
	events := make([]rheo.Event, len(ids))
	for at, id := range ids {
		events[at] = rheo.Event{ID: id, Type: "order.placed", Key: "secret-key", Payload: []byte(`{"secret":"payload"}`)}
	}
	_, err := p.Append(ctx, "orders", events...)
	p.must(err)
}

// run runs the group until all that the stream holds is acked or rejected.
func (p *process) run(options rheo.GroupOptions) {
	p.t.Helper()
	options.Stream, options.Group = "orders", "billing"
	options.RetryBackoff = rheo.Backoff{Min: time.Millisecond, Max: time.Millisecond}
	group, err := rheo.NewGroup(p.Instance, options)
	p.must(err)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	p.eventually("nothing lags and nothing is in flight", func() bool {
		lag, err := p.Lag(ctx, "orders", "billing")
		p.must(err)
		return lag.Lag == 0 && group.InFlight() == 0
	})
	cancel()
	p.must(<-ended)
}

func (p *process) eventually(what string, holds func() bool) {
	p.t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(10 * time.Second); !holds(); {
		select {
		case <-poll.C:
		case <-deadline:
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// named returns the spans of that name that have ended, in that order.
func (p *process) named(name string) (found tracetest.SpanStubs) {
	for _, s := range p.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// span returns the one span of that name.
func (p *process) span(name string) tracetest.SpanStub {
	p.t.Helper()
	found := p.named(name)
	if len(found) != 1 {
		p.t.Fatalf("%d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// collect returns what the metrics' data points hold now: by metric, and then by the
// attributes in attribute.Set's encoding. A histogram's value is its count.
func (p *process) collect() (map[string]map[string]float64, error) {
	var data metricdata.ResourceMetrics
	err := p.metrics.Collect(p.t.Context(), &data)
	found := map[string]map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = pointsOf(p.t, m)
		}
	}
	return found, err
}

func pointsOf(t *testing.T, m metricdata.Metrics) map[string]float64 {
	t.Helper()
	points := map[string]float64{}
	set := func(attributes attribute.Set, value float64) {
		points[attributes.Encoded(attribute.DefaultEncoder())] = value
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			set(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			set(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			set(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			set(p.Attributes, float64(p.Count))
		}
	default:
		t.Fatalf("%s is a %T", m.Name, data)
	}
	return points
}

// attributesOf returns a span's attributes as text.
func attributesOf(s *tracetest.SpanStub) map[string]string {
	all := make(map[string]string, len(s.Attributes))
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func newStore() rheo.Backend { return memory.New(nil) }

var errDeclined = errors.New("card declined")
