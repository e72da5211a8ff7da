package mongo

import (
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// commit is a commit document: what was appended to a partition at once. Times are
// Unix microseconds, since MongoDB's own end at the millisecond.
type commit struct {
	ID        string   `bson:"_id"` // made of stream, partition and first
	Stream    string   `bson:"stream"`
	Partition int      `bson:"partition"`
	First     int64    `bson:"first"`
	Last      int64    `bson:"last"`
	Token     int64    `bson:"token"` // random: by it the writer knows its own again
	Oldest    int64    `bson:"oldest"`
	Newest    int64    `bson:"newest"`
	IDs       []string `bson:"ids"` // of the events
	Events    []entry  `bson:"events"`
	Terms     []int64  `bson:"terms,omitempty"` // see terms.go
}

// entry is an event in its commit document. The payload is its JSON text: BSON has
// no keys with every dot and dollar, and no numbers with every digit.
type entry struct {
	Type     string      `bson:"type,omitempty"`
	Key      string      `bson:"key,omitempty"`
	At       int64       `bson:"at"`
	Metadata []attribute `bson:"metadata,omitempty"`
	Payload  string      `bson:"payload"`
}

// attribute is an entry of the metadata, whose names may hold dots and dollars.
type attribute struct {
	Name  string `bson:"name"`
	Value string `bson:"value"`
}

// place is the _id of the commit document that begins with the sequence.
func place(stream string, partition int, first int64) string { return key(stream, partition, first) }

func newCommit(stream string, partition int, first int64, events []*rheo.Event) *commit {
	c := &commit{
		ID: place(stream, partition, first), Stream: stream, Partition: partition,
		First: first, Last: first + int64(len(events)) - 1,
		IDs: make([]string, len(events)), Events: make([]entry, len(events)),
	}
	for i, e := range events {
		c.IDs[i] = e.ID
		c.Events[i] = entry{Type: e.Type, Key: e.Key, At: e.Timestamp.UnixMicro(), Payload: string(e.Payload)}
		for _, name := range sortedKeys(e.Metadata) {
			c.Events[i].Metadata = append(c.Events[i].Metadata, attribute{name, e.Metadata[name]})
		}
	}
	c.Oldest, c.Newest = c.Events[0].At, c.Events[0].At
	for i := range c.Events {
		c.Oldest, c.Newest = min(c.Oldest, c.Events[i].At), max(c.Newest, c.Events[i].At)
	}
	return c
}

func sortedKeys(m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sound reports whether the document is one that an append has written.
func (c *commit) sound() bool {
	return len(c.Events) > 0 && len(c.Events) == len(c.IDs) && c.Last-c.First == int64(len(c.Events))-1
}

// event makes the event of the sequence, which the document holds.
func (c *commit) event(sequence int64) rheo.Event {
	i := sequence - c.First
	e := &c.Events[i]
	made := rheo.Event{
		ID: c.IDs[i], Stream: c.Stream, Partition: c.Partition, Sequence: sequence,
		Timestamp: time.UnixMicro(e.At).UTC(), Key: e.Key, Type: e.Type, Payload: []byte(e.Payload),
	}
	if len(e.Metadata) > 0 {
		made.Metadata = make(map[string]string, len(e.Metadata))
		for _, a := range e.Metadata {
			made.Metadata[a.Name] = a.Value
		}
	}
	return made
}

// size is about how many bytes an event takes in its document.
func size(e *rheo.Event) int {
	const each, eachAttribute = 64, 40
	n := each + len(e.ID) + len(e.Type) + len(e.Key) + len(e.Payload)
	for name, value := range e.Metadata {
		n += eachAttribute + len(name) + len(value)
	}
	return n
}
