package bench

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Event is what every subject stores.
type Event struct {
	// ID is a UUIDv7 in its usual form of 36 characters.
	ID string
	// Key is one of a thousand, so that subjects with partitions use them all.
	Key string
	// Type is the same for all.
	Type string
	// Time is when the event was made.
	Time time.Time
	// Payload is a JSON object of exactly PayloadSize bytes.
	Payload []byte
}

// PayloadSize is the length of every event's payload.
const PayloadSize = 200

// maxEvents keeps the events of a run, which are all made before its clock
// starts, within about 400 MB.
const maxEvents = 1_000_000

// distinctPayloads is how many different payloads there are; later events
// repeat them, to save memory.
const distinctPayloads = 10_000

// makeEvents returns n events with IDs that sort as they are ordered.
func makeEvents(n int) []Event {
	payloads := make([][]byte, min(n, distinctPayloads))
	for i := range payloads {
		payloads[i] = makePayload(i)
	}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("order-%05d", i)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	events := make([]Event, n)
	for i := range events {
		at := now.Add(time.Duration(i) * time.Microsecond)
		events[i] = Event{
			ID:      makeID(at),
			Key:     keys[i%len(keys)],
			Type:    "order.placed",
			Time:    at,
			Payload: payloads[i%len(payloads)],
		}
	}
	return events
}

// makePayload returns the i-th payload, which differs from all others.
func makePayload(i int) []byte {
	head := fmt.Sprintf(`{"order":%d,"currency":"EUR","amount":129.95,"note":"`, i)
	payload := make([]byte, 0, PayloadSize)
	payload = append(payload, head...)
	for len(payload) < PayloadSize-2 {
		payload = append(payload, 'x')
	}
	return append(payload, `"}`...)
}

// canonical returns a payload in one form whatever a store made of its spaces and
// the order of its members, as jsonb does.
func canonical(payload []byte) string {
	var members map[string]any
	if err := json.Unmarshal(payload, &members); err != nil {
		return string(payload)
	}
	again, err := json.Marshal(members) // in the order of the names
	if err != nil {
		return string(payload)
	}
	return string(again)
}

// makeID returns a UUIDv7 of that time, to the microsecond (RFC 9562, 6.2,
// method 3), so that the IDs of a run are in order.
func makeID(at time.Time) string {
	var id [16]byte
	micros := at.UnixMicro()
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16)
	binary.BigEndian.PutUint16(id[6:8], 0x7000|uint16(micros%1000*4096/1000))
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()>>2|1<<63)

	text := make([]byte, 36)
	at36 := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at36] = '-'
			at36++
		}
		hex.Encode(text[at36:], []byte{b})
		at36 += 2
	}
	return string(text)
}

// AppendRecord appends e to b in the plain encoding that the yardsticks store:
// time, then ID, type and key with their lengths, then the payload. It takes
// about 70 bytes more than the payload.
func (e *Event) AppendRecord(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMicro()))
	for _, s := range []string{e.ID, e.Type, e.Key} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(b, e.Payload...)
}

// errRecord tells that a record read back is not one that was written.
var errRecord = errors.New("bench: broken record")

// recordPayload returns the payload within a record.
func recordPayload(record []byte) ([]byte, error) {
	if len(record) < 8 {
		return nil, errRecord
	}
	rest := record[8:]
	for range 3 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errRecord
		}
		rest = rest[n+int(size):]
	}
	return rest, nil
}
