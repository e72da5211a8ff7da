package rheootel

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
)

// StartAppend implements [rheo.AppendObserver]: it starts the producer span, and
// puts its context into the events' metadata.
func (o *Observer) StartAppend(ctx context.Context, start rheo.AppendStart) (context.Context, map[string]string) {
	operation := opAppend
	if start.Prepared {
		operation = opPrepare
	}
	ctx, span := o.start(ctx, route{stream: start.Stream, operation: operation})
	setBatch(span, start.Events)
	if !span.SpanContext().IsValid() {
		return ctx, nil
	}
	metadata := make(propagation.MapCarrier, 1)
	o.propagator.Inject(ctx, metadata)
	return ctx, metadata
}

// EndAppend implements [rheo.AppendObserver].
func (o *Observer) EndAppend(ctx context.Context, end rheo.AppendEnd) {
	o.end(trace.SpanFromContext(ctx), string(end.Reason), end.Err)
}
