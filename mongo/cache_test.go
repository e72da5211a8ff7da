package mongo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

func someCommit(stream string, partition int, first int64, n, payload int) *commit {
	events := make([]*rheo.Event, n)
	for i := range events {
		events[i] = &rheo.Event{ID: fmt.Sprint(first + int64(i)), Timestamp: time.Unix(0, 0), Payload: []byte(`"` + strings.Repeat("x", payload) + `"`)}
	}
	return newCommit(stream, partition, first, events)
}

func TestCommitCache(t *testing.T) {
	t.Parallel()
	var r commitCache
	if r.find("s", 0, 1) != nil {
		t.Error("an empty cache finds something")
	}
	for _, first := range []int64{11, 1, 31} {
		r.put(someCommit("s", 0, first, 10, 1))
	}
	r.put(someCommit("s", 0, 11, 10, 1))
	r.put(someCommit("other", 0, 21, 10, 1))
	for sequence := range int64(50) {
		c := r.find("s", 0, sequence)
		want := sequence >= 1 && sequence <= 20 || sequence >= 31 && sequence <= 40
		if (c != nil) != want || c != nil && c.event(sequence).ID != fmt.Sprint(sequence) {
			t.Errorf("of sequence %d it has %v", sequence, c)
		}
	}
	r.forget("s")
	if r.find("s", 0, 1) != nil || r.find("other", 0, 21) == nil {
		t.Error("it forgot the wrong stream")
	}
}

func TestCommitCacheIsBounded(t *testing.T) {
	t.Parallel()
	var r commitCache
	const n, payload = 100, 200 << 10
	for first := range int64(n) {
		r.put(someCommit("s", 0, first+1, 1, payload))
		if r.bytes > cacheBytes {
			t.Fatalf("it holds %d bytes", r.bytes)
		}
	}
	if r.find("s", 0, n) == nil || r.find("s", 0, 1) != nil {
		t.Error("it does not keep the latest")
	}
	r.put(someCommit("s", 1, 1, 1, cacheLargestDoc))
	if r.find("s", 1, 1) != nil {
		t.Error("it keeps a document that is too large")
	}
}
