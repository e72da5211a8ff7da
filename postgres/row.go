package postgres

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// columns are events as the statements that insert them take them: an array for
// each column. They share no memory with the events.
type columns struct {
	ts        []time.Time
	partition []int32
	id        []string
	key       []string
	kind      []string
	metadata  []*string
	payload   []string
	bytes     int // roughly, of all of it
}

func newColumns(n int) *columns {
	return &columns{
		ts: make([]time.Time, 0, n), partition: make([]int32, 0, n), id: make([]string, 0, n), key: make([]string, 0, n),
		kind: make([]string, 0, n), metadata: make([]*string, 0, n), payload: make([]string, 0, n),
	}
}

func (c *columns) len() int { return len(c.id) }

func (c *columns) add(e *rheo.Event) error {
	var metadata *string
	if e.Metadata != nil {
		text, err := json.Marshal(e.Metadata)
		if err != nil {
			return rheo.WrapError(rheo.ErrInvalid, err, "metadata")
		}
		s := string(text)
		metadata = &s
	}
	c.ts = append(c.ts, e.Timestamp)
	c.partition = append(c.partition, int32(e.Partition))
	c.id = append(c.id, e.ID)
	c.key = append(c.key, e.Key)
	c.kind = append(c.kind, e.Type)
	c.metadata = append(c.metadata, metadata)
	c.payload = append(c.payload, string(e.Payload))
	c.bytes += len(e.Payload) + len(e.Key) + len(e.ID)
	return nil
}

// take adds row i of other.
func (c *columns) take(other *columns, i int) {
	c.ts = append(c.ts, other.ts[i])
	c.partition = append(c.partition, other.partition[i])
	c.id = append(c.id, other.id[i])
	c.key = append(c.key, other.key[i])
	c.kind = append(c.kind, other.kind[i])
	c.metadata = append(c.metadata, other.metadata[i])
	c.payload = append(c.payload, other.payload[i])
}

// arguments are the columns in the order in which every statement has them.
func (c *columns) arguments() []any {
	return []any{c.ts, c.partition, c.id, c.key, c.kind, c.metadata, c.payload}
}

// onePartitionOnly returns the partition of all rows, if they have but one.
func (c *columns) onePartitionOnly() (partition int32, only bool) {
	for _, p := range c.partition {
		if p != c.partition[0] {
			return 0, false
		}
	}
	return c.partition[0], true
}

// onePartition are the columns for the statement that appends to one partition
// alone. A column whose rows are all the same goes as one value.
func (c *columns) onePartition() []any {
	key, keys := uniform(c.key)
	kind, kinds := uniform(c.kind)
	metadata := c.metadata
	if !slices.ContainsFunc(metadata, func(m *string) bool { return m != nil }) {
		metadata = nil
	}
	return []any{c.ts, c.id, keys, key, kinds, kind, metadata, c.payload}
}

func uniform(list []string) (one string, each []string) {
	for _, s := range list {
		if s != list[0] {
			return "", list
		}
	}
	return list[0], nil
}

// eventScan reads rows of the columns sequence, ts, partition, id, key, type,
// metadata, payload.
type eventScan struct {
	stream   string
	e        rheo.Event
	metadata []byte
	payload  []byte
}

func (s *eventScan) targets() []any {
	return []any{&s.e.Sequence, &s.e.Timestamp, &s.e.Partition, &s.e.ID, &s.e.Key, &s.e.Type, &s.metadata, &s.payload}
}

// event returns the event of the row that was scanned last.
func (s *eventScan) event() (rheo.Event, error) {
	e := s.e
	e.Stream, e.Timestamp, e.Payload = s.stream, s.e.Timestamp.UTC(), s.payload
	s.payload = nil
	if s.metadata != nil {
		if err := json.Unmarshal(s.metadata, &e.Metadata); err != nil {
			return rheo.Event{}, rheo.WrapError(rheo.ErrFailed, err, "metadata of event %d in partition %d", e.Sequence, e.Partition)
		}
	}
	return e, nil
}

// event is row i as an event, but for its stream and sequence.
func (c *columns) event(i int) rheo.Event {
	e := rheo.Event{
		ID: c.id[i], Partition: int(c.partition[i]), Timestamp: c.ts[i], Key: c.key[i], Type: c.kind[i],
		Payload: []byte(c.payload[i]),
	}
	if c.metadata[i] != nil {
		if err := json.Unmarshal([]byte(*c.metadata[i]), &e.Metadata); err != nil {
			panic(err) // add marshalled it
		}
	}
	return e
}
