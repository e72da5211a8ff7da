package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/rheo-go/rheo"
)

// row is an event as its row has it, but for the place.
type row struct {
	partition     int
	id, key, kind string
	timestamp     int64
	metadata      any // a JSON object as a string, or nil
	payload       string
}

// rowsOf copies the events, so that what is written does not change with them.
func rowsOf(events []rheo.Event) ([]row, error) {
	rows := make([]row, len(events))
	for i := range events {
		e := &events[i]
		rows[i] = row{
			partition: e.Partition, id: e.ID, key: e.Key, kind: e.Type,
			timestamp: e.Timestamp.UnixMicro(), payload: string(e.Payload),
		}
		if len(e.Metadata) == 0 {
			continue
		}
		metadata, err := json.Marshal(e.Metadata)
		if err != nil {
			return nil, rheo.WrapError(rheo.ErrInvalid, err, "metadata of event %q", e.ID)
		}
		rows[i].metadata = string(metadata)
	}
	return rows, nil
}

// eventReader turns rows into events of a stream. Its columns are place, id,
// timestamp, key, type, metadata, payload, and what more the caller adds.
type eventReader struct {
	stream    *stream
	place     int64
	timestamp int64
	metadata  sql.NullString
	payload   []byte
	event     rheo.Event
	dest      []any
}

func newEventReader(s *stream, more ...any) *eventReader {
	r := &eventReader{stream: s}
	r.dest = append([]any{&r.place, &r.event.ID, &r.timestamp, &r.event.Key, &r.event.Type, &r.metadata, &r.payload}, more...)
	return r
}

func (r *eventReader) read(rows *sql.Rows) (rheo.Event, error) {
	r.payload = nil
	if err := rows.Scan(r.dest...); err != nil {
		return rheo.Event{}, err
	}
	e := r.event
	e.Stream = r.stream.name
	e.Partition, e.Sequence = r.stream.at(r.place)
	e.Timestamp = time.UnixMicro(r.timestamp).UTC()
	e.Payload = r.payload
	if r.metadata.Valid {
		if err := json.Unmarshal([]byte(r.metadata.String), &e.Metadata); err != nil {
			return rheo.Event{}, rheo.WrapError(rheo.ErrFailed, err, "the metadata of %s/%d/%d cannot be read: restore the database from a backup", e.Stream, e.Partition, e.Sequence)
		}
	}
	return e, nil
}

// events reads what lies in (after, until] of a partition.
func (s *stream) events(ctx context.Context, session *session, partition int, after, until int64, limit int) ([]rheo.Event, error) {
	if after >= maxSequence || after >= until {
		return nil, nil
	}
	reader := newEventReader(s)
	var events []rheo.Event
	err := session.each(ctx, "read", func(rows *sql.Rows) error {
		e, err := reader.read(rows)
		events = append(events, e)
		return err
	}, s.place(partition, after), s.place(partition, until), limit)
	return events, err
}

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	events, err := s.events(ctx, b.pool, r.Partition, r.After, maxSequence, r.Limit)
	return events, failure(reading, err)
}
