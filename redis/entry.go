package redis

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// fieldEvent is the field of an entry that holds the event: its timestamp in µs since
// 1970, ID, key, type, metadata as a JSON object, and payload, with NULs between, since
// none of them holds one. It is one field, because each costs as much as an event does.
// An entry whose timestamp is not the latest so far has that in another, "mx"; and one whose
// ID is not the highest UUIDv7 so far has that in "mi".
const (
	fieldEvent = "e"
	separator  = "\x00"
)

// encodeEvent returns what fieldEvent holds. It is a copy: the caller may have the
// payload back before it was sent.
func encodeEvent(e *rheo.Event) (string, error) {
	var metadata []byte
	if len(e.Metadata) > 0 {
		var err error
		if metadata, err = json.Marshal(e.Metadata); err != nil {
			return "", rheo.WrapError(rheo.ErrInvalid, err, "metadata")
		}
	}
	const others = 30 // the timestamp and the separators
	var b strings.Builder
	b.Grow(others + len(e.ID) + len(e.Key) + len(e.Type) + len(metadata) + len(e.Payload))
	b.WriteString(formatInt(e.Timestamp.UnixMicro()))
	for _, text := range []string{e.ID, e.Key, e.Type} {
		b.WriteString(separator)
		b.WriteString(text)
	}
	b.WriteString(separator)
	b.Write(metadata)
	b.WriteString(separator)
	b.Write(e.Payload)
	return b.String(), nil
}

// damaged is told of an entry that is not one of ours.
func damaged(partition int, what string) error {
	return rheo.Errorf(rheo.ErrFailed, "an entry of partition %d cannot be read: %s; has somebody else written to Rheo's keys?", partition, what)
}

// decodeEntry reads an entry as XRANGE returns it.
func decodeEntry(stream string, partition int, reply any) (rheo.Event, error) {
	e := rheo.Event{Stream: stream, Partition: partition}
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return e, damaged(partition, "it has no fields")
	}
	fields, _ := pair[1].([]any)
	if len(fields) < 2 || fields[0] != fieldEvent {
		return e, damaged(partition, "it has no field "+fieldEvent)
	}
	sequence, err := parseEntryID(partition, pair[0])
	if err != nil {
		return e, err
	}
	e.Sequence = sequence
	text, _ := fields[1].(string)
	err = decodeEvent(&e, text)
	return e, err
}

// parseEntryID returns the sequence in an entry's ID.
func parseEntryID(partition int, reply any) (int64, error) {
	id, _ := reply.(string)
	number, _, _ := strings.Cut(id, "-")
	sequence, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, damaged(partition, "its ID is "+id)
	}
	return sequence, nil
}

// decodeEvent reads what encodeEvent wrote.
func decodeEvent(e *rheo.Event, text string) error {
	const parts = 6
	var part [parts]string
	for i := range part {
		before, after, found := strings.Cut(text, separator)
		if found == (i == parts-1) {
			return damaged(e.Partition, "sequence "+formatInt(e.Sequence)+" has another form")
		}
		part[i], text = before, after
	}
	micros, err := strconv.ParseInt(part[0], 10, 64)
	if err != nil {
		return damaged(e.Partition, "the timestamp of sequence "+formatInt(e.Sequence))
	}
	e.Timestamp = time.UnixMicro(micros).UTC()
	e.ID, e.Key, e.Type, e.Payload = part[1], part[2], part[3], json.RawMessage(part[5])
	if part[4] != "" {
		if err := json.Unmarshal([]byte(part[4]), &e.Metadata); err != nil {
			return damaged(e.Partition, "the metadata of sequence "+formatInt(e.Sequence))
		}
	}
	return nil
}

// decodeEntries reads a list of them. Nil ones have been taken out of the log.
func decodeEntries(stream string, partition int, reply any) ([]rheo.Event, error) {
	list, _ := reply.([]any)
	events := make([]rheo.Event, 0, len(list))
	for _, entry := range list {
		if entry == nil {
			continue
		}
		e, err := decodeEntry(stream, partition, entry)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}
