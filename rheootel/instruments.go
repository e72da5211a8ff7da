package rheootel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are those that the observer's calls feed. docs/guides/observability.md
// lists them.
type instruments struct {
	appended, duplicates            metric.Int64Counter
	fetched, redelivered            metric.Int64Counter
	settled, deadLettered           metric.Int64Counter
	leasesRenewed, leasesLost       metric.Int64Counter
	handlerPanics                   metric.Int64Counter
	outages, wakeups                metric.Int64Counter
	runtimes                        metric.Int64UpDownCounter
	handlerDuration, operationTimes metric.Float64Histogram
}

// seconds are the bounds of histograms: calls to a store in memory take
// microseconds, handlers may take a minute.
var seconds = metric.WithExplicitBucketBoundaries(
	0.00001, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

func newInstruments(meter metric.Meter) (instruments, error) {
	m := maker{meter: meter}
	made := instruments{
		appended:       m.counter("rheo.events.appended", "{event}", "Events added to a stream"),
		duplicates:     m.counter("rheo.events.duplicate", "{event}", "Events of an append that the stream held already"),
		fetched:        m.counter("rheo.deliveries.fetched", "{delivery}", "Deliveries leased"),
		redelivered:    m.counter("rheo.deliveries.redelivered", "{delivery}", "Deliveries leased that are not the event's first to the group"),
		settled:        m.counter("rheo.deliveries.settled", "{delivery}", "Deliveries settled, by outcome: ack, nack, reject, release; lost or failed with the reason why not"),
		deadLettered:   m.counter("rheo.deliveries.dead_lettered", "{delivery}", "Deliveries that a runtime made dead letters"),
		leasesRenewed:  m.counter("rheo.leases.renewed", "{lease}", "Leases renewed"),
		leasesLost:     m.counter("rheo.leases.lost", "{lease}", "Leases that a runtime found to be no longer held"),
		handlerPanics:  m.counter("rheo.handler.panics", "{call}", "Calls of a handler that panicked"),
		outages:        m.counter("rheo.runtime.outages", "{outage}", "Times that an operation of a runtime began to fail"),
		wakeups:        m.counter("rheo.runtime.wakeups", "{wakeup}", "Times that a runtime looked again, by reason: hint, retry, poll"),
		runtimes:       m.upDownCounter("rheo.runtime.running", "{runtime}", "Groups and producers that run"),
		operationTimes: m.histogram("rheo.operation.duration", "Time that a call to the store took"),
		handlerDuration: m.histogram("rheo.handler.duration",
			"Time that a call of a handler took, by outcome; mixed if the deliveries of a batch had several"),
	}
	return made, m.err
}

// maker makes instruments, and keeps what goes wrong.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) counter(name, unit, description string) metric.Int64Counter {
	made, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return made
}

func (m *maker) upDownCounter(name, unit, description string) metric.Int64UpDownCounter {
	made, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return made
}

func (m *maker) histogram(name, description string) metric.Float64Histogram {
	made, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), seconds)
	m.err = errors.Join(m.err, err)
	return made
}

func (m *maker) gauge(name, unit, description string) metric.Int64ObservableGauge {
	made, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return made
}

func (m *maker) secondsGauge(name, description string) metric.Float64ObservableGauge {
	made, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return made
}

// count adds n to a counter, if there is anything to add.
func (o *Observer) count(ctx context.Context, counter metric.Int64Counter, n int, l labels) {
	if n > 0 {
		counter.Add(ctx, int64(n), o.with(l).add...)
	}
}
