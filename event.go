package rheo

import (
	"encoding/json"
	"maps"
	"time"
)

// Event is one immutable entry of a stream.
//
// To append one, set Payload and, as needed, ID, Key, Type, Metadata, Timestamp
// and Pinned with Partition; Stream and Sequence are ignored. What is read back
// has every field set and Pinned false.
type Event struct {
	// ID identifies the event within its partition. Default: a UUIDv7, and of those that
	// an [Instance] makes each is above the one before.
	// Appending an ID that the partition holds already appends nothing.
	ID string `json:"id"`
	// Stream is the name of the stream that holds the event.
	Stream string `json:"stream"`
	// Partition is the part of the stream, from 0. On append it counts only if
	// Pinned is set.
	Partition int `json:"partition"`
	// Sequence is the place within the partition: 1, 2, 3, … without gaps.
	Sequence int64 `json:"sequence"`
	// Timestamp is when it happened, in UTC to the microsecond. Default: now.
	Timestamp time.Time `json:"timestamp"`
	// Key routes: events of one key share a partition, and so keep their order.
	// An event without one is routed by its ID.
	Key string `json:"key"`
	// Type names what happened, for handlers and queries to tell apart.
	Type string `json:"type"`
	// Metadata is the envelope: lineage and whatever else is not the payload.
	Metadata map[string]string `json:"metadata"`
	// Payload is any JSON value; nil is stored as null. It comes back as the
	// same value, though not always as the same bytes.
	Payload json.RawMessage `json:"payload"`
	// Pinned makes an append use Partition instead of routing by key or ID.
	Pinned bool `json:"-"`
}

// Clone returns a copy that shares no memory with e.
func (e *Event) Clone() Event {
	c := *e
	c.Metadata = maps.Clone(e.Metadata)
	if e.Payload != nil {
		c.Payload = append(make(json.RawMessage, 0, len(e.Payload)), e.Payload...)
	}
	return c
}

// The metadata keys that record an event's lineage.
const (
	MetadataCorrelationID = "correlation_id" // the business operation it belongs to
	MetadataCausationID   = "causation_id"   // the event or command that caused it
	MetadataProducer      = "producer"       // who appended it
	MetadataSchema        = "schema"         // the payload's schema
	MetadataSchemaVersion = "schema_version" // and that schema's version
)

// CorrelationID returns the lineage key of that name, or "".
func (e *Event) CorrelationID() string { return e.Metadata[MetadataCorrelationID] }

// CausationID returns the lineage key of that name, or "".
func (e *Event) CausationID() string { return e.Metadata[MetadataCausationID] }

// Producer returns the lineage key of that name, or "".
func (e *Event) Producer() string { return e.Metadata[MetadataProducer] }

// Schema returns the lineage keys schema and schema_version, each possibly "".
func (e *Event) Schema() (name, version string) {
	return e.Metadata[MetadataSchema], e.Metadata[MetadataSchemaVersion]
}

// CausedBy returns e with its lineage derived from the event that caused it: the
// cause's ID as causation, and the cause's correlation (its ID if it has none).
func (e Event) CausedBy(cause *Event) Event {
	metadata := make(map[string]string, len(e.Metadata)+2)
	maps.Copy(metadata, e.Metadata)
	metadata[MetadataCausationID] = cause.ID
	metadata[MetadataCorrelationID] = cause.ID
	if id := cause.CorrelationID(); id != "" {
		metadata[MetadataCorrelationID] = id
	}
	e.Metadata = metadata
	return e
}

// ValidatePayload returns [ErrInvalid], saying why, if the bytes cannot be an
// event's payload: if they are not JSON, or JSON that not every store keeps as it
// is. Their number is not its business.
func ValidatePayload(payload []byte) error { return checkPayload(payload, len(payload)) }
