package rheootel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/rheootel"
)

func ack(context.Context, *rheo.Delivery) error { return nil }

// An append in one process and its handler in another, with nothing in common but
// the store, are one trace.
func TestOneTraceAcrossProcesses(t *testing.T) {
	t.Parallel()
	store := newStore()
	shop, billing := newProcess(t, store, rheootel.Options{}), newProcess(t, store, rheootel.Options{})
	shop.createGroup(rheo.GroupConfig{})

	ctx, request := sdktrace.NewTracerProvider().Tracer("host").Start(t.Context(), "POST /orders")
	shop.append(ctx, "order-1")
	request.End()
	var within trace.SpanContext
	billing.run(rheo.GroupOptions{ConsumerID: "worker-1", Handler: func(ctx context.Context, _ *rheo.Delivery) error {
		within = trace.SpanContextFromContext(ctx)
		return nil
	}})

	appended, handled := shop.span("append orders"), billing.span("handle orders")
	if want := request.SpanContext(); appended.Parent.SpanID() != want.SpanID() {
		t.Errorf("the append's parent is %v, want the request's span", appended.Parent.SpanID())
	}
	for _, s := range []trace.SpanContext{appended.SpanContext, handled.SpanContext} {
		if s.TraceID() != request.SpanContext().TraceID() {
			t.Errorf("trace %v, want that of the request, %v", s.TraceID(), request.SpanContext().TraceID())
		}
	}
	if handled.Parent.SpanID() != appended.SpanContext.SpanID() || !handled.Parent.IsRemote() {
		t.Errorf("the handler's parent is %v, want the append's span", handled.Parent)
	}
	if len(handled.Links) != 1 || handled.Links[0].SpanContext.SpanID() != appended.SpanContext.SpanID() {
		t.Errorf("the handler is linked to %v, want the append's span", handled.Links)
	}
	if within.SpanID() != handled.SpanContext.SpanID() {
		t.Error("the handler's ctx does not hold its span")
	}
	if appended.SpanKind != trace.SpanKindProducer || handled.SpanKind != trace.SpanKindConsumer {
		t.Errorf("kinds %v and %v", appended.SpanKind, handled.SpanKind)
	}
	if diff := cmp.Diff(map[string]string{
		"messaging.system": "rheo", "messaging.operation.name": "append", "messaging.operation.type": "send",
		"messaging.destination.name": "orders",
	}, attributesOf(&appended)); diff != "" {
		t.Errorf("the append's attributes: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"messaging.system": "rheo", "messaging.operation.name": "handle", "messaging.operation.type": "process",
		"messaging.destination.name": "orders", "messaging.consumer.group.name": "billing",
		"messaging.message.id": "order-1", "messaging.destination.partition.id": "0", "messaging.client.id": "worker-1",
		"rheo.event.sequence": "1", "rheo.event.type": "order.placed", "rheo.delivery.attempt": "1", "rheo.outcome": "ack",
	}, attributesOf(&handled)); diff != "" {
		t.Errorf("the handler's attributes: %s", diff)
	}
}

// The append's sampling decision holds for its handler, whose ctx carries the trace
// on all the same.
func TestUnsampledAppend(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	unsampled, err := rheootel.New(&rheootel.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))})
	p.must(err)
	ctx, metadata := unsampled.StartAppend(t.Context(), rheo.AppendStart{Stream: "orders"})
	want := trace.SpanContextFromContext(ctx)
	if _, err := p.Append(t.Context(), "orders", rheo.Event{Metadata: metadata}); err != nil {
		t.Fatal(err)
	}
	var within trace.SpanContext
	p.run(rheo.GroupOptions{Handler: func(ctx context.Context, _ *rheo.Delivery) error {
		within = trace.SpanContextFromContext(ctx)
		return nil
	}})
	if found := p.named("handle orders"); len(found) != 0 {
		t.Errorf("%d spans of handlers, want none", len(found))
	}
	if within.TraceID() != want.TraceID() || within.SpanID() != want.SpanID() || within.IsSampled() {
		t.Errorf("the handler's ctx holds %v, want the append's context", within)
	}
}

// Linked to its append, a handler has a trace of its own.
func TestLinkedToAppend(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{HandlerSpans: rheootel.LinkedToAppend})
	p.createGroup(rheo.GroupConfig{})
	p.append(t.Context(), "order-1")
	p.run(rheo.GroupOptions{Handler: ack})
	appended, handled := p.span("append orders"), p.span("handle orders")
	if handled.Parent.IsValid() || handled.SpanContext.TraceID() == appended.SpanContext.TraceID() {
		t.Errorf("the handler's parent is %v", handled.Parent)
	}
	if len(handled.Links) != 1 || handled.Links[0].SpanContext.SpanID() != appended.SpanContext.SpanID() {
		t.Errorf("the handler is linked to %v, want the append's span", handled.Links)
	}
}

// An event of somebody who does not trace begins a trace with its handler; what Run
// was called in has no part in it.
func TestHandlerWithoutTrace(t *testing.T) {
	t.Parallel()
	store := newStore()
	silent, err := rheo.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, store, rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	for _, metadata := range []map[string]string{nil, {"tenant": "a"}, {"traceparent": "not one"}} {
		if _, err := silent.Append(t.Context(), "orders", rheo.Event{Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, startup := sdktrace.NewTracerProvider().Tracer("host").Start(t.Context(), "startup")
	defer startup.End()
	for _, id := range []string{"1", "2", "3"} {
		leases, err := p.Fetch(ctx, "orders", "billing", rheo.FetchOptions{})
		p.must(err)
		l := leases[0]
		start := rheo.HandlerStart{Stream: "orders", Group: "billing", Deliveries: []rheo.DeliveryInfo{{EventID: id, Metadata: l.Metadata}}}
		handling := p.observer.StartHandler(ctx, start)
		p.observer.EndHandler(handling, rheo.HandlerEnd{HandlerStart: start, Results: []rheo.HandlerResult{{Outcome: rheo.OutcomeAck}}})
	}
	handled := p.named("handle orders")
	if len(handled) != 3 {
		t.Fatalf("%d spans, want 3", len(handled))
	}
	for _, s := range handled {
		if s.Parent.IsValid() || len(s.Links) != 0 {
			t.Errorf("parent %v, links %v; want none", s.Parent, s.Links)
		}
	}
}

// A window's handler has one span, linked to the append of each delivery.
func TestBatchSpan(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{MaxAttempts: 1})
	p.append(t.Context(), "order-1", "order-2")
	p.append(t.Context(), "order-3")
	p.run(rheo.GroupOptions{BatchSize: 3, BatchHandler: func(_ context.Context, batch []*rheo.Delivery) []error {
		errs := make([]error, len(batch))
		errs[1] = rheo.Reject(errDeclined)
		return errs
	}})
	handled := p.span("handle orders")
	if handled.Parent.IsValid() {
		t.Errorf("the parent is %v, want none", handled.Parent)
	}
	appends := p.named("append orders")
	var linked, want []trace.SpanID
	for _, l := range handled.Links {
		linked = append(linked, l.SpanContext.SpanID())
	}
	for _, at := range []int{0, 0, 1} {
		want = append(want, appends[at].SpanContext.SpanID())
	}
	if diff := cmp.Diff(want, linked); diff != "" {
		t.Errorf("links: %s", diff)
	}
	got := attributesOf(&handled)
	for key, want := range map[string]string{
		"messaging.batch.message_count": "3", "rheo.outcome": "mixed", "error.type": "handler_error",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if got := attributesOf(&appends[0])["messaging.batch.message_count"]; got != "2" {
		t.Errorf("the append's batch is %q, want 2", got)
	}
}

// Each way in which a handler ends is told by its span, without the error's text
// unless it was asked for.
func TestHandlerOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		handler        rheo.Handler
		outcome, class string
		text           string
	}{
		{name: "ack", handler: ack, outcome: "ack"},
		{"reject", func(context.Context, *rheo.Delivery) error { return rheo.Reject(errDeclined) }, "reject", "handler_error", "card declined"},
		{"nack", func(context.Context, *rheo.Delivery) error { return errDeclined }, "nack", "handler_error", "card declined"},
		{"panic", func(context.Context, *rheo.Delivery) error { panic("card declined") }, "nack", "panic", "handler panicked: card declined"},
	} {
		for _, text := range []bool{false, true} {
			p := newProcess(t, newStore(), rheootel.Options{ErrorText: text})
			p.createGroup(rheo.GroupConfig{MaxAttempts: 1})
			p.append(t.Context(), "order-1")
			p.run(rheo.GroupOptions{Handler: c.handler})
			s := p.span("handle orders")
			got := attributesOf(&s)
			if got["rheo.outcome"] != c.outcome || got["error.type"] != c.class {
				t.Errorf("%s: outcome %q, error.type %q", c.name, got["rheo.outcome"], got["error.type"])
			}
			description := c.class
			if text {
				description = c.text
			}
			if failed := s.Status.Code == codes.Error; failed != (c.class != "") || s.Status.Description != description {
				t.Errorf("%s, with text %t: status %v", c.name, text, s.Status)
			}
			if len(s.Events) > 0 && !text {
				t.Errorf("%s: events %v", c.name, s.Events)
			}
		}
	}
}

// A handler whose lease was lost did its work for nothing, and its span says so.
func TestLostLeaseSpan(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	p.append(t.Context(), "order-1")
	again := false
	p.run(rheo.GroupOptions{Concurrency: 1, LeaseDuration: rheo.MinLeaseDuration, Handler: func(ctx context.Context, _ *rheo.Delivery) error {
		if again {
			return nil
		}
		again = true
		if err := p.ResetGroup(t.Context(), "orders", "billing", rheo.ResetOptions{Confirm: true}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}})
	handled := p.named("handle orders")
	if len(handled) != 2 {
		t.Fatalf("%d spans, want 2", len(handled))
	}
	if got := attributesOf(&handled[0]); got["rheo.outcome"] != "lost" || got["error.type"] != "stale_lease" {
		t.Errorf("the first handler's attributes: %v", got)
	}
}

// A failed append's span carries the class of its error.
func TestFailedAppendSpan(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	if _, err := p.Append(t.Context(), "nowhere", rheo.Event{}); !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Fatal(err)
	}
	s := p.span("append nowhere")
	if s.Status.Code != codes.Error || attributesOf(&s)["error.type"] != "stream_not_found" {
		t.Errorf("status %v, attributes %v", s.Status, attributesOf(&s))
	}
}

// A prepared event carries the span of its preparation, and an event that has a
// trace context already keeps it.
func TestPrepare(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	const others = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	prepared, err := p.Prepare(t.Context(), "orders", rheo.Event{}, rheo.Event{Metadata: map[string]string{"traceparent": others}})
	p.must(err)
	s := p.span("prepare orders")
	if got := prepared[0].Metadata["traceparent"]; !strings.Contains(got, s.SpanContext.SpanID().String()) {
		t.Errorf("traceparent %q, want that of span %v", got, s.SpanContext.SpanID())
	}
	if got := prepared[1].Metadata["traceparent"]; got != others {
		t.Errorf("traceparent %q, want it kept", got)
	}
	if got := attributesOf(&s)["messaging.operation.type"]; got != "create" {
		t.Errorf("operation type %q", got)
	}
}

// Calls to the store have spans if that is asked for, that of an append within the
// producer's.
func TestOperationSpans(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{OperationSpans: true})
	p.createGroup(rheo.GroupConfig{})
	p.append(t.Context(), "order-1")
	p.run(rheo.GroupOptions{Handler: ack})
	stored, appended := p.span("store append orders"), p.span("append orders")
	if stored.Parent.SpanID() != appended.SpanContext.SpanID() || stored.SpanKind != trace.SpanKindClient {
		t.Errorf("%v span with the parent %v", stored.SpanKind, stored.Parent.SpanID())
	}
	settled := p.span("store settle orders")
	if got := attributesOf(&settled); got["messaging.operation.type"] != "settle" || got["messaging.consumer.group.name"] != "billing" {
		t.Errorf("attributes of a settle: %v", got)
	}
	if len(p.named("store fetch orders")) == 0 {
		t.Error("no span of a fetch")
	}
}

// Neither keys nor payloads come into spans or metrics, event IDs into no metric.
func TestNothingConfidential(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{OperationSpans: true, ErrorText: true})
	p.createGroup(rheo.GroupConfig{MaxAttempts: 1})
	p.append(t.Context(), "order-1")
	p.run(rheo.GroupOptions{Handler: func(context.Context, *rheo.Delivery) error { return errDeclined }})
	for _, s := range p.spans.GetSpans() {
		for key, value := range attributesOf(&s) {
			if strings.Contains(value, "secret") {
				t.Errorf("span %q has %s = %q", s.Name, key, value)
			}
		}
	}
	metrics, err := p.collect()
	p.must(err)
	for name, points := range metrics {
		for attributes := range points {
			if strings.Contains(attributes, "secret") || strings.Contains(attributes, "order-1") {
				t.Errorf("%s has the attributes %s", name, attributes)
			}
		}
	}
}
