package rheootel

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
)

// What spans say beyond the conventions.
const (
	attemptKey  = attribute.Key("rheo.delivery.attempt")
	sequenceKey = attribute.Key("rheo.event.sequence")
	typeKey     = attribute.Key("rheo.event.type")
)

// The operations of spans that are not calls to the store.
const (
	opAppend  = "append"
	opPrepare = "prepare"
	opHandle  = "handle"
)

// route is what spans of a kind have in common.
type route struct {
	stream, group, operation string
	store                    bool // it is a call to the store
}

// spanStart is how they begin, with a parent or as the root of a trace. The options
// are made once, since most spans may never be sampled.
type spanStart struct {
	name           string
	options        []trace.SpanStartOption
	optionsForRoot []trace.SpanStartOption
}

// start starts a span with what is known of its route, which is all that a sampler
// needs to decide by.
func (o *Observer) start(ctx context.Context, r route) (context.Context, trace.Span) {
	begin := o.routes.get(r, newSpanStart)
	return o.tracer.Start(ctx, begin.name, begin.options...)
}

// startRoot starts one that begins a trace, linked as it may be.
func (o *Observer) startRoot(ctx context.Context, r route, links ...trace.SpanStartOption) (context.Context, trace.Span) {
	begin := o.routes.get(r, newSpanStart)
	options := begin.optionsForRoot
	if len(links) > 0 {
		options = slices.Concat(options, links)
	}
	return o.tracer.Start(ctx, begin.name, options...)
}

func newSpanStart(r route) *spanStart {
	attributes := []attribute.KeyValue{semconv.MessagingSystemKey.String("rheo"), semconv.MessagingOperationName(r.operation)}
	name := r.operation
	if r.store {
		name = "store " + name
	}
	if r.stream != "" {
		name += " " + r.stream
		attributes = append(attributes, semconv.MessagingDestinationName(r.stream))
	}
	if r.group != "" {
		attributes = append(attributes, semconv.MessagingConsumerGroupName(r.group))
	}
	kind, operationType := kindOf(r)
	if operationType.Valid() {
		attributes = append(attributes, operationType)
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	return &spanStart{name: name, options: options, optionsForRoot: append(slices.Clip(options), trace.WithNewRoot())}
}

// kindOf returns the kind of span, and the conventions' type of operation, if it
// has one.
func kindOf(r route) (kind trace.SpanKind, operationType attribute.KeyValue) {
	switch {
	case r.store && r.operation == string(rheo.OperationFetch):
		return trace.SpanKindClient, semconv.MessagingOperationTypeReceive
	case r.store && r.operation == string(rheo.OperationSettle):
		return trace.SpanKindClient, semconv.MessagingOperationTypeSettle
	case r.store:
		return trace.SpanKindClient, attribute.KeyValue{}
	case r.operation == opPrepare:
		return trace.SpanKindProducer, semconv.MessagingOperationTypeCreate
	case r.operation == opHandle:
		return trace.SpanKindConsumer, semconv.MessagingOperationTypeProcess
	}
	return trace.SpanKindProducer, semconv.MessagingOperationTypeSend
}

// setBatch says how many messages a span is about, if more than one.
func setBatch(span trace.Span, n int) {
	if n > 1 && span.IsRecording() {
		span.SetAttributes(semconv.MessagingBatchMessageCount(n))
	}
}

// end ends a span; class is the error's, or "".
func (o *Observer) end(span trace.Span, class string, err error) {
	if class != "" && span.IsRecording() {
		description := class
		if o.errorText && err != nil {
			span.RecordError(err)
			description = fmt.Sprint(err)
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(class))
		span.SetStatus(codes.Error, description)
	}
	span.End()
}
