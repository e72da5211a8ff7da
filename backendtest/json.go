package backendtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rheo-go/rheo"
)

func jsonCases() []testCase {
	return []testCase{
		{name: "every kind of value comes back", run: valuesComeBack},
		{name: "numbers keep every digit", run: numbersKeepEveryDigit},
		{name: "the largest and the deepest payload come back", run: largestPayloads},
		{name: "random documents come back", run: randomDocuments},
	}
}

// decode reads JSON with numbers as they are written.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", raw, err)
	}
	return v, nil
}

// same compares two decoded values: numbers by their exact value, strings and
// keys by their bytes, objects without regard to order.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && compareExactly(a, b) == 0
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, there := b[k]
			if !there || !same(v, w) {
				return false
			}
		}
		return true
	}
	return a == b // nil, bool, string
}

func compareExactly(a, b json.Number) int {
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	if !okX || !okY {
		panic(fmt.Sprintf("%q or %q is no number", a, b))
	}
	return x.Cmp(y)
}

func (s *subject) sameJSON(got []byte, want string) {
	s.Helper()
	g, errG := decode(got)
	s.noError(errG)
	w, errW := decode([]byte(want))
	s.noError(errW)
	if !same(g, w) {
		s.Fatalf("the payload came back as another value\n got %.500s\nwant %.500s", got, want)
	}
}

// comeBack appends the payloads and checks them everywhere they can be met.
func (s *subject) comeBack(payloads []string) {
	s.Helper()
	s.create(1, "g")
	for i, p := range payloads {
		e := rheo.Event{ID: fmt.Sprint("e", i), Payload: []byte(p)}
		s.sameJSON(s.append(e)[0].Payload, p)
	}
	found, err := s.in.Query(s.Context(), s.stream, rheo.Query{})
	s.noError(err)
	leases := s.fetch("g", len(payloads))
	s.reject("to see the dead letter", leases...)
	letters := s.deadLetters("g")
	equal(s, "dead letters", len(letters), len(payloads))
	for i, e := range s.read(0) {
		s.sameJSON(e.Payload, payloads[i])
		s.sameJSON(leases[i].Payload, payloads[i])
		s.sameJSON(letters[i].Event.Payload, payloads[i])
	}
	for _, e := range found {
		s.sameJSON(e.Payload, payloads[e.Sequence-1])
	}
}

func valuesComeBack(s *subject) {
	s.comeBack([]string{
		`null`, `true`, `false`, `""`, `"text"`, `0`, `{}`, `[]`, `[[],{},[{}],{"a":[]}]`,
		`{"a":{"b":{"c":[1,"2",null,true,{"d":{}}]}}}`,
		`{"":1}`, `{" ":1,"  ":2}`, `{"a.b":1,"a":{"b":2},"a.b.c":{".":{"..":3}}}`,
		`{"$set":1,"$":2,"a$b":{"$oid":"x"},"$numberLong":"1"}`, `{"_id":1,"__proto__":2,"id":3}`,
		`{"ключ":"значение","日本":"語","🚀":"👩‍👩‍👧‍👦","é":"e\u0301"}`,
		`"\"\\\/\b\f\n\r\t\u0001\u001f\u007f\u0080\u2028\u2029\ufeff\uffff"`, `"\u00e9\ud83d\ude80"`,
		`"'; DROP TABLE events; -- %s %d \\x00 {{}} ${x}"`, `"\\u0000"`,
		`{"a":null,"b":[null,null]}`, "{\"spaced\" :\t[ 1 ,\n2 ]\r\n}", `{"z":1,"a":2,"m":3}`, `[3,1,2,"3","1"]`,
		`{"twice":1,"twice":2}`, `{"at":"2026-01-31T23:59:59.123456789Z","uuid":"00000000-0000-7000-8000-000000000000"}`,
		`{"true":false,"null":"null","1":1,"00":0}`,
	})
}

func numbersKeepEveryDigit(s *subject) {
	s.comeBack([]string{
		`9223372036854775807`, `-9223372036854775808`, `9007199254740993`, `-9007199254740993`, `18446744073709551615`,
		`0.1`, `1e-7`, `1.0`, `1.10`, `-0.5`, `-0`, `0.0`, `123456789.123456789`, `0.30000000000000004`, `3.141592653589793238462643383279`,
		`1e2`, `1E+2`, `100`, `1.5e300`, `-1.7976931348623157e308`, `2.2250738585072014e-308`, `5e-324`, `1e22`, `1e23`,
		`{"n":9223372036854775807,"list":[0.1,0.2,9007199254740993]}`,
		`12345678901234567890123456789012345678901234567890`,
	})
}

func largestPayloads(s *subject) {
	text := `"` + strings.Repeat("payload 🚀 ", rheo.MaxPayloadDefault/13) + `"`
	text = text[:len(text)-1] + strings.Repeat("x", rheo.MaxPayloadDefault-len(text)) + `"`
	if len(text) != rheo.MaxPayloadDefault {
		s.Fatalf("the payload has %d bytes", len(text))
	}
	s.comeBack([]string{
		text,
		strings.Repeat("[", rheo.MaxPayloadDepth) + strings.Repeat("]", rheo.MaxPayloadDepth),
		strings.Repeat(`{"k":`, rheo.MaxPayloadDepth) + "1" + strings.Repeat("}", rheo.MaxPayloadDepth),
	})
}

func randomDocuments(s *subject) {
	rng := s.random()
	payloads := make([]string, s.scaled(200))
	for i := range payloads {
		raw, err := json.Marshal(randomValue(rng, 0))
		s.noError(err)
		payloads[i] = string(raw)
	}
	s.comeBack(payloads)
}

// alphabet has what tends to be special to one store or another.
var alphabet = []string{
	"a", "b", "Z", "0", "9", " ", ".", "$", "'", `"`, `\`, "/", "%", "_", ";", "-", ":", "{", "}", "[", "]", "?", "*", "@",
	"\n", "\t", "é", "ß", "語", "🚀", "\u2028",
}

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(8) {
		b.WriteString(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

func randomNumber(rng *rand.Rand) json.Number {
	switch rng.IntN(4) {
	case 0:
		return json.Number(fmt.Sprint(rng.IntN(20) - 10))
	case 1:
		return json.Number(fmt.Sprint(int64(rng.Uint64())))
	case 2:
		return json.Number(fmt.Sprintf("%d.%02d", rng.IntN(10), rng.IntN(100)))
	default:
		return json.Number(fmt.Sprintf("%d.%de%d", rng.IntN(10), rng.IntN(1000), rng.IntN(60)-30))
	}
}

func randomValue(rng *rand.Rand, depth int) any {
	kind := rng.IntN(8)
	if depth > 3 {
		kind = rng.IntN(5)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rng.IntN(2) == 0
	case 2, 3:
		return randomNumber(rng)
	case 4:
		return randomText(rng)
	case 5:
		list := make([]any, rng.IntN(5))
		for i := range list {
			list[i] = randomValue(rng, depth+1)
		}
		return list
	default:
		object := make(map[string]any)
		for range rng.IntN(5) {
			object[randomText(rng)] = randomValue(rng, depth+1)
		}
		return object
	}
}
