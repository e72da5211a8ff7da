// Package rheootel makes OpenTelemetry traces and metrics of what a
// [rheo.Instance] does. [New] returns an observer for rheo.Options.Observer:
//
//   - An append is a producer span, whose context travels with its events: their
//     metadata holds it as W3C traceparent, in whatever store they are.
//   - A handler is a consumer span, linked to the append of each delivery. That of
//     a single delivery is also its child, so that an append in one process and the
//     handler in another are one trace; [Options].HandlerSpans chooses otherwise.
//   - Metrics count what is appended, fetched, settled, lost and dead-lettered, and
//     measure handlers and calls to the store. [Observer.RegisterGauges] adds lag
//     and the age of the oldest unacked event of groups that the host names.
//
// Metrics carry these attributes and no others but [Options].Attributes:
// rheo.stream, rheo.group, rheo.operation, rheo.outcome and rheo.reason. Each has
// as many values as there are streams, groups, or words in a closed set; a stream
// or group that does not exist has none. Event IDs and consumer IDs stand in spans
// alone, keys and payloads nowhere.
//
// Spans follow the messaging semantic conventions. The package needs the
// OpenTelemetry API, no SDK: without one everything here does nothing.
package rheootel
