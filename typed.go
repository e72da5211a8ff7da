package rheo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
)

// Handle returns a [Handler] that decodes each payload, as encoding/json does, and
// hands it to handle. A payload that is no T makes a dead letter of its delivery,
// with the decoding error as the reason: to try again would not mend it.
func Handle[T any](handle func(ctx context.Context, d *Delivery, payload T) error) Handler {
	return func(ctx context.Context, d *Delivery) error {
		var payload T
		if err := json.Unmarshal(d.Payload, &payload); err != nil {
			return Reject(fmt.Errorf("the payload is no %T: %w", payload, err))
		}
		return handle(ctx, d, payload)
	}
}

// RejectUnknown is what a [Mux] may do with an event type that it has no handler
// for: make a dead letter of it, to be replayed once there is one.
func RejectUnknown(_ context.Context, d *Delivery) error {
	return Reject(fmt.Errorf("no handler for events of type %q", d.Type))
}

// AckUnknown is what a [Mux] may do with an event type that it has no handler for:
// pass it over, where a group is only interested in some.
func AckUnknown(context.Context, *Delivery) error { return nil }

// Mux hands each delivery to the handler of its event's type. Make one with
// [NewMux]; its [Mux.Handle] is a [Handler]. It is safe for concurrent use.
type Mux struct {
	handlers map[string]Handler
	unknown  Handler
}

// NewMux returns a mux of a handler for each event type; "" is the type of events
// without one. unknown handles the others: [RejectUnknown], [AckUnknown] or another
// handler. A nil handler is [ErrInvalid].
func NewMux(unknown Handler, handlers map[string]Handler) (*Mux, error) {
	if unknown == nil {
		return nil, invalidf("the handler of unknown types", "must not be nil; use RejectUnknown or AckUnknown")
	}
	for eventType, handler := range handlers {
		if handler == nil {
			return nil, invalidf(fmt.Sprintf("the handler of type %q", eventType), "must not be nil")
		}
	}
	return &Mux{handlers: maps.Clone(handlers), unknown: unknown}, nil
}

// Handle calls the handler of the event's type.
func (m *Mux) Handle(ctx context.Context, d *Delivery) error {
	if handler, known := m.handlers[d.Type]; known {
		return handler(ctx, d)
	}
	return m.unknown(ctx, d)
}
