package rheo

import (
	"context"
	"errors"
	"fmt"
)

// AppendResult says what became of one event of an append.
type AppendResult struct {
	// Event is the event as the log holds it.
	Event
	// Duplicate is set if the partition held the ID already: Event is then what
	// was stored under it before, and nothing was appended.
	Duplicate bool
	// Err is set, if at all, only where an append failed part-way across
	// partitions (see [Guarantees].AtomicBatch): this event is not in the log.
	Err error
}

// ExpectedSequence maps partitions to the high watermark that each must have for
// an append to go through.
type ExpectedSequence map[int]int64

// Append adds events to the stream and returns them as stored, in the order
// given. When it returns without error they are as durable as the backend makes
// anything.
//
// The batch is atomic within each partition: all of it, in this order and with
// nothing in between, or none. Across partitions it is too where the backend has
// [Guarantees].AtomicBatch; elsewhere a failure that left part of the batch in
// the log comes with results that say, item by item, what is there.
//
// It is idempotent by event ID: an ID that the partition holds already appends
// nothing and returns the stored event, so an append that ended in
// [ErrAmbiguous] or [ErrUnavailable] is repeated as it was. For that the events
// need IDs of their own.
func (i *Instance) Append(ctx context.Context, stream string, events ...Event) ([]AppendResult, error) {
	return i.AppendExpecting(ctx, stream, nil, events...)
}

// AppendExpecting is [Instance.Append] on a condition: of the partitions in which
// something would be appended, each that expected names must have that high
// watermark, else [ErrConflict], and nothing is appended. A partition of which the
// batch holds nothing but duplicates is not checked, so that repeating a call that
// went through still succeeds.
func (i *Instance) AppendExpecting(ctx context.Context, stream string, expected ExpectedSequence, events ...Event) ([]AppendResult, error) {
	if i.observers.append == nil {
		return i.append(ctx, stream, expected, events, nil)
	}
	start := AppendStart{Stream: stream, Events: len(events)}
	return i.observedAppend(ctx, start, func(ctx context.Context, metadata map[string]string) ([]AppendResult, error) {
		return i.append(ctx, stream, expected, events, metadata)
	})
}

// append adds the metadata to each event.
func (i *Instance) append(
	ctx context.Context, stream string, expected ExpectedSequence, events []Event, metadata map[string]string,
) ([]AppendResult, error) {
	if err := i.ready(ctx); err != nil {
		return nil, err
	}
	n, err := i.partitions(ctx, stream)
	if err != nil {
		return nil, err
	}
	if len(events) > MaxBatch {
		return nil, invalidf("batch", "has %d events, the limit is %d", len(events), MaxBatch)
	}
	for p, sequence := range expected {
		if err := checkRange("expected partition", int64(p), 0, int64(n-1)); err != nil {
			return nil, err
		}
		if sequence < 0 {
			return nil, invalidf("expected sequence", "is %d, must not be negative", sequence)
		}
	}
	prepared, err := i.prepare(stream, n, events, metadata)
	if err != nil || len(prepared) == 0 {
		return nil, err
	}
	return i.backend.Append(ctx, AppendRequest{Stream: stream, Events: prepared, Expected: expected})
}

// Prepare validates events, fills in their defaults, and places them on the
// stream's partitions, as [Instance.Append] does first. Backends use it for
// appends inside a host's own transaction.
func (i *Instance) Prepare(ctx context.Context, stream string, events ...Event) (prepared []Event, err error) {
	if i.observers.append == nil {
		return i.prepareFor(ctx, stream, events, nil)
	}
	start := AppendStart{Stream: stream, Events: len(events), Prepared: true}
	_, err = i.observedAppend(ctx, start, func(ctx context.Context, metadata map[string]string) ([]AppendResult, error) {
		var failed error
		prepared, failed = i.prepareFor(ctx, stream, events, metadata)
		return nil, failed
	})
	return prepared, err
}

func (i *Instance) prepareFor(ctx context.Context, stream string, events []Event, metadata map[string]string) ([]Event, error) {
	if err := i.ready(ctx); err != nil {
		return nil, err
	}
	n, err := i.partitions(ctx, stream)
	if err != nil {
		return nil, err
	}
	return i.prepare(stream, n, events, metadata)
}

func (i *Instance) prepare(stream string, partitions int, events []Event, metadata map[string]string) ([]Event, error) {
	prepared := make([]Event, len(events))
	for at := range events {
		e := events[at]
		e.Metadata = withMetadata(e.Metadata, metadata)
		if err := i.complete(&e, stream, partitions); err != nil {
			return nil, eventError(&events[at], at, len(events), err)
		}
		prepared[at] = e
	}
	return prepared, nil
}

// complete fills in what is left out, checks what is there, and routes.
func (i *Instance) complete(e *Event, stream string, partitions int) error {
	e.Stream, e.Sequence = stream, 0
	if e.Timestamp.IsZero() {
		e.Timestamp = i.clock.Now()
	}
	if err := checkTimestamp(e.Timestamp); err != nil {
		return err
	}
	e.Timestamp = storedTime(e.Timestamp)
	if e.ID == "" {
		e.ID = i.ids.next(i.clock.Now())
	}
	if e.Payload == nil {
		e.Payload = []byte("null")
	}
	if len(e.Metadata) == 0 {
		e.Metadata = nil
	}
	if err := i.check(e); err != nil {
		return err
	}
	return i.route(e, partitions)
}

func (i *Instance) check(e *Event) error {
	if err := checkName("id", e.ID); err != nil {
		return err
	}
	if err := checkText("key", e.Key, MaxKeyBytes); err != nil {
		return err
	}
	if e.Type != "" {
		if err := checkName("type", e.Type); err != nil {
			return err
		}
	}
	if err := checkMetadata(e.Metadata); err != nil {
		return err
	}
	return checkPayload(e.Payload, i.maxPayload)
}

func (i *Instance) route(e *Event, partitions int) error {
	switch {
	case e.Pinned:
		e.Pinned = false
		return checkRange("partition", int64(e.Partition), 0, int64(partitions-1))
	case e.Key != "":
		e.Partition = i.router(e.Key, partitions)
	default:
		e.Partition = i.router(e.ID, partitions)
	}
	if e.Partition < 0 || e.Partition >= partitions {
		return Errorf(ErrFailed, "the router placed %q on partition %d of %d", e.Key, e.Partition, partitions)
	}
	return nil
}

// eventError says which event of a batch broke the rule.
func eventError(e *Event, at, of int, err error) error {
	var cause *Error
	if of == 1 || !errors.As(err, &cause) {
		return err
	}
	where := fmt.Sprintf("event %d of %d", at+1, of)
	if e.ID != "" && len(e.ID) <= MaxNameBytes {
		where += fmt.Sprintf(" (id %q)", e.ID)
	}
	return &Error{Kind: cause.Kind, Detail: where + ": " + cause.Detail, Cause: cause.Cause}
}
