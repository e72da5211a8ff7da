package backendtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

func inputCases() []testCase {
	return []testCase{
		{name: "stream", run: badStream},
		{name: "event", run: badEvent},
		{name: "payload", run: badPayload},
		{name: "expected sequence", run: badExpectation},
		{name: "one bad event in a batch", run: badEventInABatch},
		{name: "read", run: badRead},
		{name: "query", run: badQuery},
		{name: "group", run: badGroup},
		{name: "fetch", run: badFetch},
		{name: "renew and settle", run: badSettle},
		{name: "replay and reset", run: badReplay},
		{name: "dead letters", run: badDeadLetters},
		{name: "names in every call", run: badNames},
		{name: "what is just within the limits is taken", run: withinTheLimits},
		{name: "hostile names are plain data", run: hostileNames},
		{name: "options", run: badOptions},
	}
}

// A bad input is a call that breaks a rule, and the field that the error names.
type badInput struct {
	what  string
	field string
	call  func(ctx context.Context, in *rheo.Instance) error
}

// refuses checks that each call is ErrInvalid and names its field, that nothing
// has changed by it, and that the store goes on.
func (s *subject) refuses(inputs []badInput) {
	s.Helper()
	before := s.snapshot()
	for _, b := range inputs {
		s.invalid(b.what, b.call(s.Context(), s.in), b.field)
		equal(s, "everything after "+b.what, s.snapshot(), before)
	}
	s.noError(s.in.CreateStream(s.Context(), "it goes on", rheo.StreamConfig{}))
	_, err := s.in.Append(s.Context(), "it goes on", event("e1"))
	s.noError(err)
	s.append(event("it goes on"))
}

// snapshot tells what there is in the store.
func (s *subject) snapshot() string {
	s.Helper()
	streams, err := s.in.Streams(s.Context())
	s.noError(err)
	var text strings.Builder
	fmt.Fprintf(&text, "%+v", streams)
	for i := range streams {
		groups, err := s.in.Groups(s.Context(), streams[i].Name)
		s.noError(err)
		for _, g := range groups {
			info, err := s.in.GroupInfo(s.Context(), streams[i].Name, g)
			s.noError(err)
			fmt.Fprintf(&text, "\n%+v", info)
		}
	}
	return text.String()
}

// badTexts are names that break a rule.
func badTexts() map[string]string {
	return map[string]string{
		"an empty name": "", "a name of 256 bytes": strings.Repeat("x", 256), "256 bytes of multi-byte characters": strings.Repeat("é", 128),
		"a NUL": "a\x00b", "a newline": "a\nb", "a tab": "a\tb", "an escape": "a\x1b[0m", "invalid UTF-8": "a\xffb", "half a character": "é"[:1],
		"a zero-width space": "a\u200bb", "a line separator": "a\u2028b", "a lone surrogate": "\xed\xa0\x80", "a private character": "\ue000",
	}
}

func badStream(s *subject) {
	s.create(1)
	var inputs []badInput
	for what, text := range badTexts() {
		inputs = append(inputs, badInput{what, "stream", func(ctx context.Context, in *rheo.Instance) error {
			return in.CreateStream(ctx, text, rheo.StreamConfig{})
		}})
	}
	for _, n := range []int{-1, rheo.MaxPartitions + 1, math.MaxInt} {
		inputs = append(inputs, badInput{fmt.Sprint(n, " partitions"), "partitions", func(ctx context.Context, in *rheo.Instance) error {
			return in.CreateStream(ctx, "new", rheo.StreamConfig{Partitions: n})
		}})
	}
	s.refuses(inputs)
}

// appending makes a bad input of each event.
func (s *subject) appending(field string, events map[string]rheo.Event) []badInput {
	var inputs []badInput
	for what, e := range events {
		inputs = append(inputs, badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Append(ctx, s.stream, e)
			return err
		}})
	}
	return inputs
}

func badEvent(s *subject) {
	s.create(2)
	var inputs []badInput
	for what, text := range badTexts() {
		if text != "" {
			inputs = append(inputs, s.appending("id", map[string]rheo.Event{"an ID with " + what: {ID: text}})...)
			inputs = append(inputs, s.appending("type", map[string]rheo.Event{"a type with " + what: {Type: text}})...)
		}
		inputs = append(inputs, s.appending("metadata key", map[string]rheo.Event{
			"a metadata key with " + what: {Metadata: map[string]string{text: "v"}},
		})...)
	}
	inputs = append(inputs, s.appending("key", map[string]rheo.Event{
		"a key too long": {Key: strings.Repeat("x", rheo.MaxKeyBytes+1)}, "a key with a NUL": {Key: "a\x00"}, "a key with invalid UTF-8": {Key: "\xff"},
	})...)
	inputs = append(inputs, s.appending("metadata[k]", map[string]rheo.Event{
		"a metadata value too long":           {Metadata: map[string]string{"k": strings.Repeat("x", rheo.MaxMetadataBytes+1)}},
		"a metadata value with a NUL":         {Metadata: map[string]string{"k": "\x00"}},
		"a metadata value with invalid UTF-8": {Metadata: map[string]string{"k": "\xc3\x28"}},
	})...)
	half := strings.Repeat("x", rheo.MaxMetadataBytes/2)
	inputs = append(inputs, s.appending("metadata", map[string]rheo.Event{
		"metadata too long in all": {Metadata: map[string]string{"a": half, "b": half}},
	})...)
	inputs = append(inputs, s.appending("partition", map[string]rheo.Event{
		"partition -1": {Pinned: true, Partition: -1}, "partition 2 of 2": {Pinned: true, Partition: 2}, "partition 1<<40": {Pinned: true, Partition: 1 << 40},
	})...)
	inputs = append(inputs, s.appending("timestamp", map[string]rheo.Event{
		"the year 10000": {Timestamp: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "the year 0": {Timestamp: time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)},
		"the year -5000": {Timestamp: time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)}, "the far future": {Timestamp: time.Unix(1<<60, 0)},
	})...)
	s.refuses(inputs)
}

// badPayloads are no JSON, or JSON that not every store can give back.
var badPayloads = map[string]string{
	"nothing": "", "a blank": " ", "a word": "hello", "NaN": "NaN", "Infinity": "Infinity", "minus infinity": "-Infinity", "half an object": `{"a":`,
	"half a string": `"a`, "two values": "1 2", "a trailing comma": "[1,]", "a comment": "1 // one", "single quotes": "'a'", "a key without quotes": "{a:1}",
	"a leading zero": "01", "a plus sign": "+1", "a lone point": ".5", "a trailing point": "5.", "hexadecimal": "0x10", "an exponent without digits": "1e",
	"a number out of range": "1e400", "a number too small": "1e-400", "a number far too small": "-1e-99999999", "a number far out of range": "-1e999999999", "a capital literal": "True", "undefined": "undefined",
	"a NUL escape": `"a\u0000b"`, "a NUL escape in a key": `{"a\u0000":1}`, "a raw NUL": "\"a\x00b\"", "a raw newline in a string": "\"a\nb\"",
	"a lone high surrogate": `"\ud83d"`, "a lone low surrogate": `"\ude80"`, "surrogates in the wrong order": `"\ude80\ud83d"`,
	"a lone surrogate in a key": `{"\ud800x":1}`, "invalid UTF-8": "\"\xff\"", "an encoded surrogate": "\"\xed\xa0\x80\"", "a truncated character": "\"\xe2\x82\"",
	"an unknown escape": `"\x41"`, "a short escape": `"\u12"`, "a byte order mark": "\xef\xbb\xbf1", "arrays too deep": strings.Repeat("[", 65) + strings.Repeat("]", 65),
	"objects too deep": strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "a million brackets": strings.Repeat("[", 1_000_000),
	"a missing colon": `{"a" 1}`, "a bracket too many": "[1]]", "mixed brackets": "[1}", "a missing comma": "[1 2]",
}

func badPayload(s *subject) {
	s.create(1)
	events := make(map[string]rheo.Event)
	for what, payload := range badPayloads {
		events[what] = rheo.Event{Payload: json.RawMessage(payload)}
	}
	s.refuses(s.appending("payload", events))
	s.refusesTooLarge()
}

func (s *subject) refusesTooLarge() {
	s.Helper()
	large := rheo.Event{Payload: []byte(`"` + strings.Repeat("x", rheo.MaxPayloadDefault-1) + `"`)}
	_, err := s.in.Append(s.Context(), s.stream, large)
	s.invalid("a payload too large", err, fmt.Sprint(rheo.MaxPayloadDefault))
	small := s.instance(s.backend, rheo.Options{MaxPayload: 10})
	_, err = small.Append(s.Context(), s.stream, rheo.Event{Payload: []byte(`"123456789"`)})
	s.invalid("a payload larger than the option says", err, "limit is 10")
	_, err = small.Append(s.Context(), s.stream, rheo.Event{Payload: []byte(`"12345678"`)})
	s.noError(err)
}

func badExpectation(s *subject) {
	s.create(2)
	var inputs []badInput
	for what, expected := range map[string]rheo.ExpectedSequence{
		"partition -1": {-1: 0}, "partition 2 of 2": {0: 0, 2: 0}, "a negative sequence": {0: -1},
	} {
		inputs = append(inputs, badInput{what, "expected", func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.AppendExpecting(ctx, s.stream, expected, event("e1"))
			return err
		}})
	}
	s.refuses(inputs)
}

func badEventInABatch(s *subject) {
	s.create(2)
	bad := rheo.Event{ID: "bad one", Pinned: true, Partition: 1, Payload: []byte(`{`)}
	batch := append(on(0, "e1", "e2"), bad, event("e3"))
	_, err := s.in.Append(s.Context(), s.stream, batch...)
	s.invalid("a batch", err, "payload")
	s.invalid("a batch", err, "event 3 of 4")
	s.invalid("a batch", err, "bad one")
	equal(s, "events written", len(s.query(rheo.Query{})), 0)
	_, err = s.in.Append(s.Context(), s.stream, make([]rheo.Event, rheo.MaxBatch+1)...)
	s.invalid("a batch too large", err, fmt.Sprint(rheo.MaxBatch))
	s.append(on(0, "e1")...)
}

func badRead(s *subject) {
	s.create(2)
	s.fill(0, 3)
	read := func(what, field string, partition int, after int64, limit int) badInput {
		return badInput{what, field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Read(ctx, s.stream, partition, after, limit)
			return err
		}}
	}
	s.refuses([]badInput{
		read("partition -1", "partition", -1, 0, 10), read("partition 2 of 2", "partition", 2, 0, 10), read("a negative place", "after", 0, -1, 10),
		read("a negative limit", "limit", 0, 0, -1), read("a limit too large", "limit", 0, 0, rheo.MaxBatch+1),
	})
}

func badQuery(s *subject) {
	s.create(2)
	s.fill(0, 3)
	where := func(path string, op rheo.Op, value any) rheo.Query {
		return rheo.Query{Where: []rheo.Condition{rheo.Where(path, op, value)}}
	}
	var inputs []badInput
	for _, c := range []struct {
		what, field string
		query       rheo.Query
	}{
		{"an unknown operator", "operator", where("a", "~", 1)},
		{"no operator", "operator", where("a", "", 1)},
		{"an operator with SQL", "operator", where("a", "= 1; --", 1)},
		{"an empty path", "path", where("", rheo.OpEq, 1)},
		{"an empty segment", "path", where("a..b", rheo.OpEq, 1)},
		{"a trailing dot", "path", where("a.", rheo.OpEq, 1)},
		{"a leading dot", "path", where(".a", rheo.OpEq, 1)},
		{"payload and a dot", "path", where("payload.", rheo.OpEq, 1)},
		{"metadata and a dot", "path", where("metadata.", rheo.OpEq, 1)},
		{"a NUL in a path", "path", where("a\x00", rheo.OpEq, 1)},
		{"invalid UTF-8 in a path", "path", where("\xff", rheo.OpEq, 1)},
		{"a path too long", "path", where(strings.Repeat("x", rheo.MaxKeyBytes+1), rheo.OpEq, 1)},
		{"NaN", "condition on a", where("a", rheo.OpEq, math.NaN())},
		{"infinity", "condition on a", where("a", rheo.OpGt, math.Inf(1))},
		{"a malformed number", "condition on a", where("a", rheo.OpEq, json.Number("1x"))},
		{"a number with a plus sign", "condition on a", where("a", rheo.OpEq, json.Number("+1"))},
		{"a number with a leading zero", "condition on a", where("a", rheo.OpEq, json.Number("01"))},
		{"a number with a blank", "condition on a", where("a", rheo.OpEq, json.Number("1 "))},
		{"a number with a trailing point", "condition on a", where("a", rheo.OpEq, json.Number("1."))},
		{"a number with underscores", "condition on a", where("a", rheo.OpEq, json.Number("1_000"))},
		{"a hexadecimal number", "condition on a", where("a", rheo.OpEq, json.Number("0x1p-2"))},
		{"a text in place of a number", "condition on a", where("a", rheo.OpEq, json.Number(`"1"`))},
		{"a number too small", "condition on a", where("a", rheo.OpEq, json.Number("1e-400"))},
		{"an empty number", "condition on a", where("a", rheo.OpEq, json.Number(""))},
		{"a number out of range", "condition on a", where("a", rheo.OpEq, json.Number("1e400"))},
		{"an object", "condition on a", where("a", rheo.OpEq, map[string]any{})},
		{"a list beside =", "condition on a", where("a", rheo.OpEq, []int{1})},
		{"a struct", "condition on a", where("a", rheo.OpEq, struct{}{})},
		{"a time on a payload field", "condition on a", where("a", rheo.OpEq, time.Now())},
		{"a NUL in a value", "condition on a", where("a", rheo.OpEq, "x\x00")},
		{"invalid UTF-8 in a value", "condition on a", where("a", rheo.OpEq, "\xff")},
		{"an order with a bool", "condition on a", where("a", rheo.OpGt, true)},
		{"an order with null", "condition on a", where("a", rheo.OpLe, nil)},
		{"in without a list", "condition on a", where("a", rheo.OpIn, 1)},
		{"in with a nested list", "condition on a", where("a", rheo.OpIn, [][]int{{1}})},
		{"in with nothing", "condition on a", where("a", rheo.OpIn, nil)},
		{"exists with a value", "condition on a", where("a", rheo.OpExists, true)},
		{"a timestamp that is none", "condition on timestamp", where("timestamp", rheo.OpGt, "yesterday")},
		{"a timestamp that is a number", "condition on timestamp", where("timestamp", rheo.OpGt, 1)},
		{"partition 2 of 2", "partition", rheo.Query{Partitions: []int{2}}},
		{"partition -1", "partition", rheo.Query{Partitions: []int{-1}}},
		{"a partition twice", "partition", rheo.Query{Partitions: []int{1, 1}}},
		{"a negative bound", "sequence bound", rheo.Query{After: -1}},
		{"a negative upper bound", "sequence bound", rheo.Query{Until: -1}},
		{"a negative limit", "limit", rheo.Query{Limit: -1}},
		{"an unknown order", "order", rheo.Query{OrderBy: 7}},
	} {
		inputs = append(inputs, badInput{c.what, c.field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.Query(ctx, s.stream, c.query)
			return err
		}}, badInput{c.what + ", paged", c.field, func(ctx context.Context, in *rheo.Instance) error {
			_, err := in.QueryPage(ctx, s.stream, c.query, rheo.Cursor{})
			return err
		}})
	}
	inputs = append(inputs, badInput{"a page too large", "limit", func(ctx context.Context, in *rheo.Instance) error {
		_, err := in.QueryPage(ctx, s.stream, rheo.Query{Limit: rheo.MaxBatch + 1}, rheo.Cursor{})
		return err
	}})
	s.refuses(inputs)
}
