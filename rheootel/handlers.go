package rheootel

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
)

// StartHandler implements [rheo.HandlerObserver]: it starts the consumer span. What
// the host's ctx holds of a span is not its parent: Run is not what made the event.
func (o *Observer) StartHandler(ctx context.Context, start rheo.HandlerStart) context.Context {
	r := route{stream: start.Stream, group: start.Group, operation: opHandle}
	if len(start.Deliveries) != 1 {
		return o.startBatch(ctx, r, &start)
	}
	d := &start.Deliveries[0]
	appended, cause := o.appendOf(ctx, d)
	var span trace.Span
	switch {
	case !cause.IsValid():
		ctx, span = o.startRoot(ctx, r)
	case o.handlerSpans == LinkedToAppend:
		ctx, span = o.startRoot(appended, r, trace.WithLinks(trace.Link{SpanContext: cause}))
	case !cause.IsSampled():
		return appended
	default:
		ctx, span = o.start(appended, r)
		if span.IsRecording() { // a link for nothing would cost more than the span
			span.AddLink(trace.Link{SpanContext: cause})
		}
	}
	if span.IsRecording() {
		span.SetAttributes(append(aboutDelivery(d), semconv.MessagingClientID(start.ConsumerID))...)
	}
	return ctx
}

func (o *Observer) startBatch(ctx context.Context, r route, start *rheo.HandlerStart) context.Context {
	links := make([]trace.Link, 0, len(start.Deliveries))
	for at := range start.Deliveries {
		d := &start.Deliveries[at]
		if _, cause := o.appendOf(ctx, d); cause.IsValid() {
			links = append(links, trace.Link{SpanContext: cause, Attributes: aboutDelivery(d)})
		}
	}
	ctx, span := o.startRoot(ctx, r, trace.WithLinks(links...))
	if span.IsRecording() {
		span.SetAttributes(semconv.MessagingClientID(start.ConsumerID), semconv.MessagingBatchMessageCount(len(start.Deliveries)))
	}
	return ctx
}

// appendOf returns the context of the append as the metadata carries it, in ctx and
// by itself.
func (o *Observer) appendOf(ctx context.Context, d *rheo.DeliveryInfo) (context.Context, trace.SpanContext) {
	if len(d.Metadata) == 0 {
		return ctx, trace.SpanContext{}
	}
	if trace.SpanContextFromContext(ctx).IsValid() { // it would be taken for the append's
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	ctx = o.propagator.Extract(ctx, propagation.MapCarrier(d.Metadata))
	return ctx, trace.SpanContextFromContext(ctx)
}

func aboutDelivery(d *rheo.DeliveryInfo) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 8),
		semconv.MessagingMessageID(d.EventID),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(d.Partition)),
		sequenceKey.Int64(d.Sequence), attemptKey.Int(d.Attempt), typeKey.String(d.Type))
}

// EndHandler implements [rheo.HandlerObserver].
func (o *Observer) EndHandler(ctx context.Context, end rheo.HandlerEnd) {
	outcome, worst := outcomeOf(end.Results)
	l := labels{stream: end.Stream, group: end.Group}
	if end.Panicked {
		o.count(ctx, o.instruments.handlerPanics, 1, l)
	}
	l.outcome = outcome
	o.instruments.handlerDuration.Record(ctx, end.Duration.Seconds(), o.with(l).record...)
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(outcomeKey.String(outcome))
	}
	o.end(span, errorClass(&end, worst), worst.Err)
}

// outcomeOf returns the outcome of all, or mixed, and the first result that is not
// well.
func outcomeOf(results []rheo.HandlerResult) (outcome string, worst rheo.HandlerResult) {
	for at, r := range results {
		this := r.Outcome.String()
		if r.Lost {
			this = outcomeLost
		}
		switch {
		case at == 0:
			outcome = this
		case outcome != this:
			outcome = "mixed"
		}
		if !isTrouble(worst) && isTrouble(r) {
			worst = r
		}
	}
	return outcome, worst
}

func isTrouble(r rheo.HandlerResult) bool {
	return r.Lost || r.Outcome == rheo.OutcomeNack || r.Outcome == rheo.OutcomeReject
}

// errorClass says in a word what went wrong; "" if nothing did.
func errorClass(end *rheo.HandlerEnd, worst rheo.HandlerResult) string {
	switch {
	case end.Panicked:
		return "panic"
	case worst.Lost:
		return string(rheo.ReasonStaleLease)
	case isTrouble(worst):
		return "handler_error"
	}
	return ""
}
