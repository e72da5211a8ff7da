package rheootel

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/rheo-go/rheo"
)

// StartOperation implements [rheo.Observer].
func (o *Observer) StartOperation(ctx context.Context, start rheo.OperationStart) context.Context {
	if !o.operationSpans {
		return ctx
	}
	ctx, span := o.start(ctx, route{stream: start.Stream, group: start.Group, operation: string(start.Operation), store: true})
	setBatch(span, start.Count)
	return ctx
}

// EndOperation implements [rheo.Observer].
func (o *Observer) EndOperation(ctx context.Context, end rheo.OperationEnd) {
	l := labelsOf(&end)
	o.instruments.operationTimes.Record(ctx, end.Duration.Seconds(), o.with(l).record...)
	named := labels{stream: l.stream, group: l.group}
	switch end.Operation {
	case rheo.OperationAppend:
		o.count(ctx, o.instruments.appended, end.Done, named)
		o.count(ctx, o.instruments.duplicates, end.Duplicates, named)
	case rheo.OperationFetch:
		o.count(ctx, o.instruments.fetched, end.Done, named)
		o.count(ctx, o.instruments.redelivered, end.Redelivered, named)
	case rheo.OperationRenew:
		o.count(ctx, o.instruments.leasesRenewed, end.Done, named)
	case rheo.OperationSettle:
		o.countSettled(ctx, &end, named)
	}
	if o.operationSpans {
		o.end(trace.SpanFromContext(ctx), string(end.Reason), end.Err)
	}
}

func (o *Observer) countSettled(ctx context.Context, end *rheo.OperationEnd, named labels) {
	for _, c := range []struct {
		outcome string
		reason  rheo.Reason
		n       int
	}{
		{"ack", "", end.Outcomes.Acked},
		{"nack", "", end.Outcomes.Nacked},
		{"reject", "", end.Outcomes.Rejected},
		{"release", "", end.Outcomes.Released},
		{outcomeLost, rheo.ReasonStaleLease, end.Lost},
		{"failed", end.Reason, failedOf(end)},
	} {
		named.outcome, named.reason = c.outcome, string(c.reason)
		o.count(ctx, o.instruments.settled, c.n, named)
	}
}

// outcomeLost is the outcome of a delivery whose lease was lost.
const outcomeLost = "lost"

// failedOf is how many deliveries a call that failed as a whole was to settle.
func failedOf(end *rheo.OperationEnd) int {
	if end.Err == nil {
		return 0
	}
	return end.Count
}
