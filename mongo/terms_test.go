package mongo

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
)

func TestPlainNumber(t *testing.T) {
	t.Parallel()
	for _, equal := range [][]string{
		{"0", "-0", "0.0", "0e5", "-0.000E-7", "0e99999999999999999999"},
		{"1", "1.0", "1e0", "10e-1", "0.1e1", "1E+0", "100e-2"},
		{"-12.5", "-1.25e1", "-12.500", "-125E-1"},
		{"9223372036854775807", "9223372036854775807.0", "9.223372036854775807e18"},
		{"9223372036854775806"},
		{"0.1"},
		{"0.10000000000000000555"},
		{"1e22"},
		{"1e23"},
		{"-1"},
		{"12.5"},
	} {
		for _, n := range equal {
			if got := plainNumber(n); got != plainNumber(equal[0]) {
				t.Errorf("%s comes to %s, %s to %s", n, got, equal[0], plainNumber(equal[0]))
			}
		}
	}
	seen := make(map[string]string)
	for _, n := range []string{"0", "1", "10", "-1", "0.1", "1e22", "9223372036854775807", "9223372036854775806", "12.5", "125"} {
		if other, taken := seen[plainNumber(n)]; taken {
			t.Errorf("%s and %s both come to %s", n, other, plainNumber(n))
		}
		seen[plainNumber(n)] = n
	}
}

// finds reports whether the lookup of a value comes upon the event.
func finds(e *rheo.Event, field rheo.Field, value any, path ...string) bool {
	p := rheo.Predicate{Field: field, Op: rheo.OpEq, Path: path, Values: []any{value}}
	have := termsOf([]*rheo.Event{e})
	return slices.ContainsFunc(lookupTerms(&p), func(term int64) bool { return slices.Contains(have, term) })
}

func TestTermsFindWhatMatches(t *testing.T) {
	t.Parallel()
	e := &rheo.Event{
		Metadata: map[string]string{"m.x": "v"},
		Payload:  []byte(`{"a":{"b.c":[1,{"$d":null}]},"s":"1","n":1.50,"t":true,"twice":1,"twice":2,"":"e","o":{}}`),
	}
	number := func(n string) json.Number { return json.Number(n) }
	for _, there := range []struct {
		value any
		path  []string
	}{
		{number("1"), []string{"a", "b.c", "0"}},
		{nil, []string{"a", "b.c", "1", "$d"}},
		{"1", []string{"s"}},
		{number("15e-1"), []string{"n"}},
		{true, []string{"t"}},
		{number("1"), []string{"twice"}},
		{number("2"), []string{"twice"}},
	} {
		if !finds(e, rheo.FieldPayload, there.value, there.path...) {
			t.Errorf("%v at %q is not found", there.value, there.path)
		}
	}
	for _, missing := range []struct {
		value any
		path  []string
	}{
		{"1", []string{"n"}},
		{number("1"), []string{"s"}},
		{nil, []string{"s"}},
		{false, []string{"t"}},
		{number("1"), []string{"a", "b", "c", "0"}},
	} {
		if finds(e, rheo.FieldPayload, missing.value, missing.path...) {
			t.Errorf("%v at %q is found", missing.value, missing.path)
		}
	}
	if !finds(e, rheo.FieldMetadata, "v", "m.x") || finds(e, rheo.FieldPayload, "v", "m.x") {
		t.Error("metadata is not told from payload")
	}
}

// TestTermsAreBounded: an event with more than is indexed is found by every lookup.
func TestTermsAreBounded(t *testing.T) {
	t.Parallel()
	var long []string
	for i := range 1000 {
		long = append(long, strconv.Itoa(i))
	}
	deep := strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)
	for _, payload := range []string{"[" + strings.Join(long, ",") + "]", deep} {
		e := &rheo.Event{Payload: []byte(payload)}
		if n := len(termsOf([]*rheo.Event{e})); n > mostTerms+1 {
			t.Errorf("there are %d terms", n)
		}
		if !finds(e, rheo.FieldPayload, json.Number("-7"), "no", "such", "path") {
			t.Error("an event that is not indexed as a whole is not found")
		}
	}
	small := &rheo.Event{Payload: []byte(`{"a":1}`)}
	if slices.Contains(termsOf([]*rheo.Event{small}), anyTerm) {
		t.Error("a small event is found by every lookup")
	}
}
