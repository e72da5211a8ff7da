package postgres

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rheo-go/rheo"
)

// eachEvent calls f with the event of each row of the columns sequence, ts,
// partition, id, key, type, metadata, payload.
func eachEvent(rows pgx.Rows, stream string, f func(rheo.Event)) error {
	defer rows.Close()
	raw, text := rawEvents{stream: stream}, eventScan{stream: stream}
	targets, binary, first := text.targets(), false, true
	for rows.Next() {
		if first {
			binary, first = isBinary(rows.FieldDescriptions()), false
		}
		var e rheo.Event
		var err error
		if binary {
			e, err = raw.event(rows.RawValues())
		} else if err = rows.Scan(targets...); err == nil {
			e, err = text.event()
		}
		if err != nil {
			return err
		}
		f(e)
	}
	return rows.Err()
}

// isBinary is false with the simple protocol.
func isBinary(fields []pgconn.FieldDescription) bool {
	for _, field := range fields {
		if field.Format != pgx.BinaryFormatCode && field.DataTypeOID != textOID {
			return false
		}
	}
	return true
}

const (
	textOID      = 25 // the same in both formats
	jsonbVersion = 1  // the first byte of its binary format
)

// postgresEpoch is where the binary format of a timestamp counts from.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// rawEvents reads rows in the binary format, without a plan for each value.
type rawEvents struct {
	stream string
	kind   string // the last one: most are alike
	key    string
}

func (r *rawEvents) event(v [][]byte) (rheo.Event, error) {
	const columns, wide, narrow = 8, 8, 4
	if len(v) < columns || len(v[0]) != wide || len(v[1]) != wide || len(v[2]) != narrow ||
		!isJSONB(v[7]) || v[6] != nil && !isJSONB(v[6]) {
		return rheo.Event{}, rheo.Errorf(rheo.ErrFailed, "PostgreSQL sent an event in a form that is not known")
	}
	e := rheo.Event{
		Stream:    r.stream,
		Sequence:  int64(binary.BigEndian.Uint64(v[0])),
		Timestamp: time.UnixMicro(int64(binary.BigEndian.Uint64(v[1])) + postgresEpoch).UTC(),
		Partition: int(int32(binary.BigEndian.Uint32(v[2]))),
		ID:        string(v[3]),
		Payload:   append(make(json.RawMessage, 0, len(v[7])-1), v[7][1:]...),
	}
	if r.key != string(v[4]) {
		r.key = string(v[4])
	}
	if r.kind != string(v[5]) {
		r.kind = string(v[5])
	}
	e.Key, e.Type = r.key, r.kind
	if v[6] != nil {
		if err := json.Unmarshal(v[6][1:], &e.Metadata); err != nil {
			return rheo.Event{}, rheo.WrapError(rheo.ErrFailed, err, "metadata of event %d in partition %d", e.Sequence, e.Partition)
		}
	}
	return e, nil
}

func isJSONB(v []byte) bool { return len(v) > 1 && v[0] == jsonbVersion }
