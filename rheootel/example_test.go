package rheootel_test

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheootel"
)

// An append and its handler are one trace. A host exports to a collector, and reads
// metrics with OpenTelemetry's Prometheus exporter, say; here both stay in memory.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	spans := tracetest.NewInMemoryExporter()
	tracing := trace.NewTracerProvider(trace.WithSyncer(spans))
	metering := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	observer, err := rheootel.New(&rheootel.Options{TracerProvider: tracing, MeterProvider: metering})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := rheo.New(memory.New(nil), &rheo.Options{Observer: observer})
	if err != nil {
		fmt.Println(err)
		return
	}
	gauges, err := observer.RegisterGauges(r, rheootel.GaugeOptions{
		Groups: []rheootel.GroupName{{Stream: "orders", Group: "billing"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(billOneOrder(ctx, cancel, r), gauges.Unregister()); err != nil {
		fmt.Println(err)
		return
	}
	appended, handled := spans.GetSpans()[0], spans.GetSpans()[1]
	fmt.Println(appended.Name, "·", handled.Name)
	fmt.Println("one trace:", appended.SpanContext.TraceID() == handled.SpanContext.TraceID())
	// Output:
	// append orders · handle orders
	// one trace: true
}

func billOneOrder(ctx context.Context, stop context.CancelFunc, r *rheo.Instance) error {
	if err := r.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
		return err
	}
	if err := r.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
		return err
	}
	if _, err := r.Append(ctx, "orders", rheo.Event{Type: "order.placed"}); err != nil {
		return err
	}
	group, err := rheo.NewGroup(r, rheo.GroupOptions{
		Stream: "orders", Group: "billing",
		Handler: func(context.Context, *rheo.Delivery) error {
			stop() // a service goes on
			return nil
		},
	})
	if err != nil {
		return err
	}
	return group.Run(ctx)
}
