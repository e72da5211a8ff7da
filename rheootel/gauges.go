package rheootel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/rheo-go/rheo"
)

// DefaultGaugeTimeout is GaugeOptions.Timeout if none is given.
const DefaultGaugeTimeout = 5 * time.Second

// GaugeOptions says what to ask a store for at each collection.
type GaugeOptions struct {
	// Groups are those whose state is asked for, one after the other, by a call of
	// [rheo.Instance.GroupInfo] each. It may be empty: what the runtimes of this
	// process hold costs no call.
	Groups []GroupName
	// Timeout bounds the calls of one collection together. Groups that it leaves no
	// time for have no value in that collection. Default [DefaultGaugeTimeout].
	Timeout time.Duration
}

// GroupName names a group.
type GroupName struct{ Stream, Group string }

// gauges are instruments that are read at each collection.
type gauges struct {
	lag, inFlight, waiting, deadLetters metric.Int64ObservableGauge
	oldestUnacked                       metric.Float64ObservableGauge

	held, mayHold metric.Int64ObservableGauge
}

func newGauges(meter metric.Meter) (gauges, error) {
	m := maker{meter: meter}
	made := gauges{
		lag:           m.gauge("rheo.group.lag", "{event}", "Events between the group's frontier and the end of the stream"),
		oldestUnacked: m.secondsGauge("rheo.group.oldest_unacked", "Age of the oldest event that the group has not acked or rejected"),
		inFlight:      m.gauge("rheo.group.in_flight", "{delivery}", "Deliveries leased, by whatever process"),
		waiting:       m.gauge("rheo.group.waiting", "{delivery}", "Deliveries that wait for another attempt"),
		deadLetters:   m.gauge("rheo.group.dead_letters", "{delivery}", "Dead letters that wait to be looked at"),
		held:          m.gauge("rheo.runtime.in_flight", "{lease}", "Leases that this process' runtime holds"),
		mayHold:       m.gauge("rheo.runtime.max_demand", "{lease}", "The most leases that it may hold"),
	}
	return made, m.err
}

func (g *gauges) all() []metric.Observable {
	return []metric.Observable{g.lag, g.oldestUnacked, g.inFlight, g.waiting, g.deadLetters, g.held, g.mayHold}
}

// RegisterGauges has each collection ask the instance for the state of the groups
// named, and of the runtimes that run. One process of a fleet is enough to ask for
// a group: all see the same. A group that cannot be asked has no value, the error
// goes to OpenTelemetry's error handler, and the other groups have theirs.
// Unregister before the instance is closed.
func (o *Observer) RegisterGauges(instance *rheo.Instance, options GaugeOptions) (metric.Registration, error) {
	if instance == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "instance must not be nil")
	}
	if options.Timeout < 0 {
		return nil, rheo.Errorf(rheo.ErrInvalid, "GaugeOptions.Timeout is %v, must not be negative", options.Timeout)
	}
	made, err := newGauges(o.meter)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "making the gauges")
	}
	groups, timeout := slices.Clone(options.Groups), cmp.Or(options.Timeout, DefaultGaugeTimeout)
	registration, err := o.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		o.observeRuntimes(to, &made, instance)
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		var failures []error
		for _, group := range groups {
			failures = append(failures, o.observeGroup(bounded, to, &made, instance, group))
		}
		return errors.Join(failures...)
	}, made.all()...)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "registering the gauges")
	}
	return registration, nil
}

func (o *Observer) observeRuntimes(to metric.Observer, g *gauges, instance *rheo.Instance) {
	for _, r := range instance.Runtimes() {
		with := o.with(labels{stream: r.Stream, group: r.Group}).observe
		to.ObserveInt64(g.held, int64(r.InFlight), with...)
		to.ObserveInt64(g.mayHold, int64(r.MaxDemand), with...)
	}
}

func (o *Observer) observeGroup(ctx context.Context, to metric.Observer, g *gauges, instance *rheo.Instance, group GroupName) error {
	info, err := instance.GroupInfo(ctx, group.Stream, group.Group)
	if err != nil {
		return err
	}
	with := o.with(labels{stream: group.Stream, group: group.Group}).observe
	to.ObserveInt64(g.lag, info.Lag(), with...)
	to.ObserveFloat64(g.oldestUnacked, info.OldestUnacked().Seconds(), with...)
	to.ObserveInt64(g.inFlight, info.InFlight(), with...)
	to.ObserveInt64(g.waiting, info.Waiting(), with...)
	to.ObserveInt64(g.deadLetters, info.DeadLetters, with...)
	return nil
}
