package rheo

import (
	"context"
	"time"
)

// Observer is told of every call to the store, for metrics and traces: one is set
// in [Options].Observer, and may implement [AppendObserver], [HandlerObserver] and
// [RuntimeObserver], too. Without one, nothing is measured and nothing allocated.
//
// Of every method of the four:
//   - It is called synchronously, by the goroutine that does the work, and so must
//     be quick and must not call the instance it observes; many call it at once.
//   - No payload is ever in what it is given. Maps and slices are lent for the call
//     and must not be changed.
//   - A Start method returns the ctx that the work goes on with, which the End
//     method is given: derived from the one passed in, never nil.
//   - A panic in it is not caught; in a handler's observer it is not taken for the
//     handler's.
type Observer interface {
	StartOperation(ctx context.Context, start OperationStart) context.Context
	EndOperation(ctx context.Context, end OperationEnd)
}

// Operation names a call to the store: a small closed set of stable words.
type Operation string

// The operations, one for each call of a [Backend] that may take time.
const (
	OperationEnsureSchema Operation = "ensure_schema"
	OperationPing         Operation = "ping"
	OperationCreateStream Operation = "create_stream"
	OperationStream       Operation = "stream"
	OperationStreams      Operation = "streams"
	OperationAppend       Operation = "append"
	OperationRead         Operation = "read"
	OperationQuery        Operation = "query"
	OperationCreateGroup  Operation = "create_group"
	OperationGroup        Operation = "group"
	OperationGroups       Operation = "groups"
	OperationDeadLetters  Operation = "dead_letters"
	OperationFetch        Operation = "fetch"
	OperationRenew        Operation = "renew"
	OperationSettle       Operation = "settle"
	OperationReplay       Operation = "replay"
	OperationReset        Operation = "reset"
)

// OperationStart is a call to the store that begins.
type OperationStart struct {
	Instance  string // Options.Name
	Operation Operation
	Stream    string // "" for a call that concerns none
	Group     string // likewise
	// ConsumerID is who fetches; "" for other operations.
	ConsumerID string
	// Count is how much was asked for: events to append, leases to renew or
	// settle, the most events, dead letters or leases to return. Else 0.
	Count int
}

// OperationEnd is what became of it.
type OperationEnd struct {
	OperationStart
	Duration time.Duration
	// Done is how much was done: events appended or read, leases fetched or renewed,
	// deliveries settled or opened again, dead letters read.
	Done int
	// Duplicates is how many events of an append the log held already.
	Duplicates int
	// Redelivered is how many leases of a fetch are not the event's first.
	Redelivered int
	// Outcomes counts the deliveries settled.
	Outcomes OutcomeCounts
	// Lost is how many leases of a renewal or settle were no longer held.
	Lost int
	// Reason classifies Err: a small closed set of words.
	Reason Reason
	Err    error
}

// OutcomeCounts counts deliveries by how they were settled.
type OutcomeCounts struct {
	Acked, Nacked, Rejected, Released int
}

// AppendObserver is an [Observer] that is told of appends from the beginning, before
// the events are checked, and may add to their metadata: a trace context, say.
type AppendObserver interface {
	// StartAppend returns what to add to each event's metadata, or nil. A key that
	// an event has already stays as it is.
	StartAppend(ctx context.Context, start AppendStart) (_ context.Context, metadata map[string]string)
	EndAppend(ctx context.Context, end AppendEnd)
}

// AppendStart is an append that begins.
type AppendStart struct {
	Instance string
	Stream   string
	Events   int
	// Prepared is set within [Instance.Prepare]: the append itself is somebody
	// else's, such as the host's own transaction.
	Prepared bool
}

// AppendEnd is what became of it.
type AppendEnd struct {
	AppendStart
	Duration   time.Duration
	Appended   int
	Duplicates int
	Reason     Reason
	Err        error
}

// HandlerObserver is an [Observer] that is told of handlers. The ctx that
// StartHandler returns is the handler's.
type HandlerObserver interface {
	StartHandler(ctx context.Context, start HandlerStart) context.Context
	EndHandler(ctx context.Context, end HandlerEnd)
}

// HandlerStart is a handler that is called.
type HandlerStart struct {
	Instance   string
	Stream     string
	Group      string
	ConsumerID string
	// Deliveries is what it is given: one, unless it handles batches.
	Deliveries []DeliveryInfo
}

// DeliveryInfo is a delivery without its payload.
type DeliveryInfo struct {
	EventID   string
	Type      string
	Partition int
	Sequence  int64
	Timestamp time.Time
	Metadata  map[string]string
	Attempt   int
}

func deliveryInfo(l *Lease) DeliveryInfo {
	return DeliveryInfo{
		EventID: l.ID, Type: l.Type, Partition: l.Partition, Sequence: l.Sequence,
		Timestamp: l.Timestamp, Metadata: l.Metadata, Attempt: l.Attempt,
	}
}

// HandlerEnd is a handler that has returned.
type HandlerEnd struct {
	HandlerStart
	Duration time.Duration
	// Results has one for each delivery.
	Results []HandlerResult
	// Panicked is set if the handler did not return but panic.
	Panicked bool
}

// HandlerResult is what a handler made of a delivery.
type HandlerResult struct {
	Outcome Outcome // that the store will be asked for
	Err     error   // that the handler returned or panicked with, or nil
	Lost    bool    // the lease was lost meanwhile: the outcome counts for nothing
}

// RuntimeObserver is an [Observer] that is told how each [Group] and [Producer]
// fares. [Instance.Runtimes] tells what they hold.
type RuntimeObserver interface {
	ObserveRuntime(ctx context.Context, event RuntimeEvent)
}

// RuntimeEventKind names what has happened to a runtime: a small closed set of
// stable words.
type RuntimeEventKind string

// The kinds, with the fields of [RuntimeEvent] that say more.
const (
	// RuntimeStarted: Run has begun.
	RuntimeStarted RuntimeEventKind = "started"
	// RuntimeDraining: a drain has begun; it ends with RuntimeStopped.
	RuntimeDraining RuntimeEventKind = "draining"
	// RuntimeStopped: Run returns, with Err, and nothing is in flight.
	RuntimeStopped RuntimeEventKind = "stopped"
	// RuntimeOutageBegan: an Operation has failed that did not before, with Err.
	// While that of OperationRenew lasts, leases are at risk.
	RuntimeOutageBegan RuntimeEventKind = "outage_began"
	// RuntimeOutageEnded: the Operation works again, after Count failures.
	RuntimeOutageEnded RuntimeEventKind = "outage_ended"
	// RuntimeLeasesLost: Count leases turned out to be no longer held.
	RuntimeLeasesLost RuntimeEventKind = "leases_lost"
	// RuntimeDeadLettered: a Delivery was rejected, or has failed for the last time.
	// One whose lease expires for the last time becomes a dead letter in the store,
	// unseen by any runtime: [GroupInfo] counts it.
	RuntimeDeadLettered RuntimeEventKind = "dead_lettered"
	// RuntimeWoken: the fetch loop looks again, because of Wake.
	RuntimeWoken RuntimeEventKind = "woken"
)

// Wake is what made a fetch loop look again after it had found nothing.
type Wake string

// The ways to be woken.
const (
	WakeHint  Wake = "hint"  // the backend's [Waiter] said that something may be due
	WakeRetry Wake = "retry" // a delivery that this runtime gave back becomes due
	WakePoll  Wake = "poll"  // PollInterval is over
)

// RuntimeKind tells a [Group] from a [Producer].
type RuntimeKind string

// The kinds of runtime.
const (
	KindGroup    RuntimeKind = "group"
	KindProducer RuntimeKind = "producer"
)

// RuntimeEvent is something that has happened to a runtime. Which fields are set
// depends on Kind.
type RuntimeEvent struct {
	Kind       RuntimeEventKind
	Runtime    RuntimeKind
	Instance   string
	Stream     string
	Group      string
	ConsumerID string

	Count     int
	Delivery  DeliveryInfo
	Operation Operation
	Wake      Wake
	Reason    Reason // classifies Err
	Err       error
}

// RuntimeInfo is what a runtime that runs now holds.
type RuntimeInfo struct {
	Runtime    RuntimeKind
	Stream     string
	Group      string
	ConsumerID string
	InFlight   int // leases held
	MaxDemand  int // the most it may hold
	Draining   bool
}

// observers are the interfaces that an observer implements, nil where it does not.
type observers struct {
	operation Observer
	append    AppendObserver
	handler   HandlerObserver
	runtime   RuntimeObserver
}

func observersOf(o Observer) observers {
	found := observers{operation: o}
	found.append, _ = o.(AppendObserver)
	found.handler, _ = o.(HandlerObserver)
	found.runtime, _ = o.(RuntimeObserver)
	return found
}
