package rheo_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// One event and the conditions that it does and does not meet.
func TestConditions(t *testing.T) {
	t.Parallel()
	event := rheo.Event{
		ID: "e1", Type: "quake", Key: "uw", Timestamp: time.Date(2018, 1, 31, 12, 0, 0, 0, time.UTC),
		Metadata: map[string]string{"a.b": "1", "empty": ""},
		Payload: []byte(`{"n": 1, "f": 1.50, "big": 9007199254740993, "s": "1", "t": true, "z": null, "o": {"x.y": [10, {"k": "v"}]},
			"$set": 2, "tiny": 1e-7, "uni": "gr\u00fcn", "id": "inner"}`),
	}
	r := newInstance(t, nil)
	if _, err := r.Append(t.Context(), "s", event); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		op    rheo.Op
		value any
		want  bool
	}{
		{"id", rheo.OpEq, "e1", true},
		{"payload.id", rheo.OpEq, "inner", true},
		{"type", rheo.OpIn, []string{"blast", "quake"}, true},
		{"type", rheo.OpIn, []string{}, false},
		{"key", rheo.OpExists, nil, true},
		{"key", rheo.OpGt, "u", true},
		{"partition", rheo.OpEq, rheo.PHash2("uw", 4), true},
		{"partition", rheo.OpEq, "0", false},
		{"sequence", rheo.OpLe, 1, true},
		{"timestamp", rheo.OpLt, "2018-02-01T00:00:00Z", true},
		{"timestamp", rheo.OpGe, time.Date(2018, 2, 1, 0, 0, 0, 0, time.UTC), false},
		{"metadata.a.b", rheo.OpEq, "1", true},
		{"metadata.a.b", rheo.OpEq, 1, false},
		{"metadata.empty", rheo.OpExists, nil, true},
		{"metadata.none", rheo.OpNe, "1", true},
		{"n", rheo.OpEq, 1, true},
		{"n", rheo.OpEq, 1.0, true},
		{"n", rheo.OpEq, json.Number("10e-1"), true},
		{"n", rheo.OpEq, "1", false},
		{"n", rheo.OpEq, true, false},
		{"s", rheo.OpEq, "1", true},
		{"s", rheo.OpGt, 0, false},
		{"f", rheo.OpEq, 1.5, true},
		{"f", rheo.OpGt, 1, true},
		{"big", rheo.OpEq, int64(9007199254740993), true},
		{"big", rheo.OpEq, int64(9007199254740992), false},
		{"big", rheo.OpGt, json.Number("9007199254740992.5"), true},
		{"tiny", rheo.OpEq, json.Number("0.0000001"), true},
		{"t", rheo.OpEq, true, true},
		{"t", rheo.OpNe, "true", true},
		{"z", rheo.OpEq, nil, true},
		{"z", rheo.OpExists, nil, true},
		{"missing", rheo.OpEq, nil, false},
		{"missing", rheo.OpExists, nil, false},
		{"missing", rheo.OpLt, 5, false},
		{"o", rheo.OpExists, nil, true},
		{"o", rheo.OpEq, nil, false},
		{`o.x\.y.0`, rheo.OpEq, 10, true},
		{`o.x\.y.1.k`, rheo.OpEq, "v", true},
		{`o.x\.y.2`, rheo.OpExists, nil, false},
		{"o.x.y.0", rheo.OpExists, nil, false},
		{"$set", rheo.OpEq, 2, true},
		{"uni", rheo.OpEq, "grün", true},
		{"payload", rheo.OpExists, nil, true},
	} {
		found, err := r.Query(t.Context(), "s", rheo.Query{Where: []rheo.Condition{rheo.Where(c.path, c.op, c.value)}})
		if err != nil {
			t.Errorf("%s %s %v: %v", c.path, c.op, c.value, err)
		} else if (len(found) == 1) != c.want {
			t.Errorf("%s %s %v: found %d, want %t", c.path, c.op, c.value, len(found), c.want)
		}
	}
}

func TestBadConditions(t *testing.T) {
	t.Parallel()
	r := newInstance(t, nil)
	for _, c := range []rheo.Condition{
		rheo.Where("", rheo.OpEq, 1),
		rheo.Where("a..b", rheo.OpEq, 1),
		rheo.Where("a", "~", 1),
		rheo.Where("a", rheo.OpEq, math.NaN()),
		rheo.Where("a", rheo.OpEq, math.Inf(1)),
		rheo.Where("a", rheo.OpEq, json.Number("x")),
		rheo.Where("a", rheo.OpEq, []int{1}),
		rheo.Where("a", rheo.OpEq, "a\x00b"),
		rheo.Where("a", rheo.OpGt, nil),
		rheo.Where("a", rheo.OpGt, true),
		rheo.Where("a", rheo.OpIn, 1),
		rheo.Where("a", rheo.OpExists, 1),
		rheo.Where("timestamp", rheo.OpEq, "yesterday"),
		rheo.Where("timestamp", rheo.OpEq, 5),
	} {
		_, err := r.Query(t.Context(), "s", rheo.Query{Where: []rheo.Condition{c}})
		if !errors.Is(err, rheo.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", c, err)
		}
	}
}
