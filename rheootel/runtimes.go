package rheootel

import (
	"context"

	"github.com/rheo-go/rheo"
)

// ObserveRuntime implements [rheo.RuntimeObserver].
func (o *Observer) ObserveRuntime(ctx context.Context, event rheo.RuntimeEvent) {
	l := labels{stream: event.Stream, group: event.Group}
	switch event.Kind {
	case rheo.RuntimeStarted:
		o.instruments.runtimes.Add(ctx, 1, o.with(l).add...)
	case rheo.RuntimeStopped:
		o.instruments.runtimes.Add(ctx, -1, o.with(l).add...)
	case rheo.RuntimeOutageBegan:
		l.operation, l.reason = event.Operation, string(event.Reason)
		o.count(ctx, o.instruments.outages, 1, l)
	case rheo.RuntimeLeasesLost:
		o.count(ctx, o.instruments.leasesLost, event.Count, l)
	case rheo.RuntimeDeadLettered:
		o.count(ctx, o.instruments.deadLettered, event.Count, l)
	case rheo.RuntimeWoken:
		l.reason = string(event.Wake)
		o.count(ctx, o.instruments.wakeups, 1, l)
	}
}
