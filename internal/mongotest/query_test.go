package mongotest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// TestQueriesAreNarrowed: what MongoDB has an index on is said in the command.
func TestQueriesAreNarrowed(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{PayloadIndex: true})
	s.create(t, "s", 1)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 4 {
		s.append(t, "s", rheo.Event{
			ID: fmt.Sprint("e", i), Type: fmt.Sprint("type", i), Key: fmt.Sprint("key", i), Pinned: true,
			Metadata: map[string]string{"producer": fmt.Sprint("p", i)}, Timestamp: start.Add(time.Duration(i) * time.Hour),
			Payload: fmt.Appendf(nil, `{"a":{"b":%d}}`, i),
		})
	}
	for field, q := range map[string]rheo.Query{
		"ids":         {Where: []rheo.Condition{rheo.Where("id", rheo.OpEq, "e2")}},
		"events.type": {Where: []rheo.Condition{rheo.Where("type", rheo.OpIn, []string{"type2"})}},
		"events.key":  {Where: []rheo.Condition{rheo.Where("key", rheo.OpEq, "key2")}},
		"terms":       {Where: []rheo.Condition{rheo.Where("a.b", rheo.OpEq, 2)}},
		`"producer"`:  {Where: []rheo.Condition{rheo.Where("metadata.producer", rheo.OpEq, "p2")}},
		"newest":      {From: start.Add(2 * time.Hour), To: start.Add(3 * time.Hour)},
		"oldest":      {Where: []rheo.Condition{rheo.Where("timestamp", rheo.OpEq, start.Add(2*time.Hour))}},
		"last":        {After: 2, Until: 3},
	} {
		var mu sync.Mutex
		var filters []string
		s.proxy.watch(func(_ string, body bson.Raw) {
			mu.Lock()
			defer mu.Unlock()
			filters = append(filters, body.Lookup("filter").String())
		})
		events, err := s.Query(t.Context(), "s", q)
		s.proxy.watch(nil)
		if err != nil || len(events) != 1 || events[0].ID != "e2" {
			t.Errorf("%s: %v, %v", field, events, err)
		}
		if field == `"producer"` {
			field = "terms"
		}
		if len(filters) != 2 || !strings.Contains(filters[1], field) {
			t.Errorf("%s is not in what MongoDB is asked: %v", field, filters)
		}
	}
}

// TestIndexMadeLater: what was appended before there was an index is found, too, and
// a process that does not ask for it fills it.
func TestIndexMadeLater(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1)
	event := func(id string) rheo.Event {
		return rheo.Event{ID: id, Pinned: true, Payload: []byte(`{"a":1}`)}
	}
	s.append(t, "s", event("before"), rheo.Event{ID: "another", Pinned: true, Payload: []byte(`{"a":2}`)})
	with := s.options
	with.PayloadIndex = true
	other := newBackend(t, s.database, with)
	if err := other.EnsureSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.append(t, "s", event("meanwhile"))
	fresh := s.beside(t)
	if _, err := fresh.Append(t.Context(), "s", event("after"), rheo.Event{Pinned: true, Payload: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	events, err := fresh.Query(t.Context(), "s", rheo.Query{Where: []rheo.Condition{rheo.Where("a", rheo.OpEq, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	expectIDs(t, "found", ids, []string{"before", "meanwhile", "after"})
	var document struct {
		Terms []int64 `bson:"terms"`
	}
	if err := s.log().FindOne(t.Context(), bson.D{{Key: "ids", Value: "after"}}).Decode(&document); err != nil || len(document.Terms) != 1 || slices.Contains(document.Terms, 0) {
		t.Errorf("the terms are %v, %v", document.Terms, err)
	}
}

// TestLatestEvents: the first page by timestamp does not read the whole stream.
func TestLatestEvents(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 3)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 40
	for i := range n {
		s.append(t, "s", rheo.Event{ID: fmt.Sprint("e", i), Timestamp: start.Add(time.Duration(i) * time.Hour)})
	}
	for _, descending := range []bool{false, true} {
		want := []string{"e0", "e1", "e2"}
		if descending {
			want = []string{"e39", "e38", "e37"}
		}
		var mu sync.Mutex
		documents := 0
		s.proxy.answered(func(reply bson.Raw) {
			mu.Lock()
			defer mu.Unlock()
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if list, err := reply.LookupErr("cursor", batch); err == nil {
					values, _ := list.Array().Values()
					documents += len(values)
				}
			}
		})
		page, err := s.QueryPage(t.Context(), "s", rheo.Query{OrderBy: rheo.ByTimestamp, Descending: descending, Limit: 3}, rheo.Cursor{})
		s.proxy.answered(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Events {
			got = append(got, e.ID)
		}
		expectIDs(t, "page", got, want)
		if !page.More || documents > 8 {
			t.Errorf("descending %t: more %t, %d documents were read", descending, page.More, documents)
		}
	}
}
