package rheootel

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
)

// scope names the instrumentation in everything that it makes.
const scope = "github.com/rheo-go/rheo/rheootel"

// HandlerSpans says how the span of a handler stands to that of the append.
type HandlerSpans int

const (
	// ChildOfAppend puts a handler's span into the trace of its event's append, as
	// a child that is linked to it, too. The sampling decision made at the append
	// holds: if that was not sampled the handler has no span, whatever its sampler
	// would say, and its ctx passes the append's on. A handler of several deliveries
	// has several appends, and so is only linked to them.
	ChildOfAppend HandlerSpans = iota
	// LinkedToAppend gives each handler's call a trace of its own, linked to the
	// append: for events that are handled long after, many times, or by many groups.
	LinkedToAppend
)

// Options configures an [Observer]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// TracerProvider makes the spans. Default [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
	// MeterProvider makes the instruments. Default [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// Propagator carries the append's context in its events' metadata. Default
	// [propagation.TraceContext], the W3C's. Those who append and those who handle
	// need the same one.
	Propagator propagation.TextMapPropagator
	// HandlerSpans says how handlers stand to appends. Default [ChildOfAppend].
	HandlerSpans HandlerSpans
	// OperationSpans adds a client span for each call to the store, those of idle
	// polling too.
	OperationSpans bool
	// ErrorText puts the text of errors into spans, beside the class that is always
	// there. A handler's error may quote what it was given.
	ErrorText bool
	// Attributes stand on every metric, to tell several instances of a process
	// apart, say.
	Attributes []attribute.KeyValue
}

// Observer makes traces and metrics. Make one with [New] and set it in
// rheo.Options.Observer, of one instance or of many. It is safe for concurrent use.
type Observer struct {
	tracer         trace.Tracer
	meter          metric.Meter
	propagator     propagation.TextMapPropagator
	handlerSpans   HandlerSpans
	operationSpans bool
	errorText      bool
	constant       []attribute.KeyValue

	instruments instruments
	labelled    cache[labels, *labelled]
	routes      cache[route, *spanStart]
}

var (
	_ rheo.Observer        = (*Observer)(nil)
	_ rheo.AppendObserver  = (*Observer)(nil)
	_ rheo.HandlerObserver = (*Observer)(nil)
	_ rheo.RuntimeObserver = (*Observer)(nil)
)

// New returns an observer. It fails if the MeterProvider refuses an instrument.
func New(options *Options) (*Observer, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	if o.HandlerSpans != ChildOfAppend && o.HandlerSpans != LinkedToAppend {
		return nil, rheo.Errorf(rheo.ErrInvalid, "Options.HandlerSpans is %d, must be ChildOfAppend or LinkedToAppend", o.HandlerSpans)
	}
	meter := o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	instruments, err := newInstruments(meter)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "making the instruments")
	}
	return &Observer{
		tracer:     o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		meter:      meter,
		propagator: o.Propagator, handlerSpans: o.HandlerSpans,
		operationSpans: o.OperationSpans, errorText: o.ErrorText,
		constant:    slices.Clone(o.Attributes),
		instruments: instruments,
	}, nil
}
