package postgres

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/rheo-go/rheo"
)

// payload translates a condition on a field of the payload. jsonb compares
// numbers by value and equal strings by bytes, as the filter does; only the order
// of its strings is another.
func (w *where) payload(p *rheo.Predicate) {
	if slices.ContainsFunc(p.Path, oddIndex) {
		return
	}
	for _, v := range p.Values {
		if n, ok := v.(json.Number); ok && !plainNumber(n) {
			return
		}
	}
	field, arguments := "e.payload", []any(nil)
	if len(p.Path) > 0 {
		field, arguments = "(e.payload #> %s::text[])", []any{p.Path}
	}
	with := func(more ...any) []any { return append(slices.Clone(arguments), more...) }
	switch p.Op {
	case rheo.OpExists:
		w.and(field+" IS NOT NULL", arguments...)
	case rheo.OpEq, rheo.OpIn:
		values := make([]string, len(p.Values))
		for i, v := range p.Values {
			values[i] = jsonOf(v)
		}
		w.and(field+" = ANY (%s::text[]::jsonb[])", with(values)...)
		w.contains(p.Path, values)
	case rheo.OpNe:
		w.and(field+" IS DISTINCT FROM %s::jsonb", with(jsonOf(p.Values[0]))...)
	default:
		if s, ok := p.Values[0].(string); ok {
			w.and("jsonb_typeof("+field+") = 'string'", arguments...)
			w.and("("+field+" #>> '{}') COLLATE \"C\" "+string(p.Op)+" %s::text", with(s)...)
			return
		}
		w.and("jsonb_typeof("+field+") = 'number'", arguments...)
		w.and(field+" "+string(p.Op)+" %s::jsonb", with(jsonOf(p.Values[0]))...)
	}
}

// contains says an equality once more, in the way that the index on the payload
// serves: as containment. That knows no index into an array.
func (w *where) contains(path, values []string) {
	const most = 100 // alternatives
	if len(path) == 0 || len(values) > most || slices.ContainsFunc(path, arrayIndex.MatchString) {
		return
	}
	alternatives, arguments := make([]string, len(values)), make([]any, len(values))
	for i, v := range values {
		alternatives[i], arguments[i] = "e.payload @> %s::jsonb", nested(path, v)
	}
	if len(values) > 0 {
		w.and("("+strings.Join(alternatives, " OR ")+")", arguments...)
	}
}

// nested is the JSON object that holds the value under the path.
func nested(path []string, value string) string {
	var open, end strings.Builder
	for _, segment := range path {
		open.WriteString("{" + jsonOf(segment) + ":")
		end.WriteByte('}')
	}
	return open.String() + value + end.String()
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is nil, a bool, a valid number or string
	}
	return string(text)
}

// arrayIndex matches what PostgreSQL takes for an index into an array.
var arrayIndex = regexp.MustCompile(`^[ \t\n\v\f\r]*[+-]?\d+$`)

// oddIndex reports whether PostgreSQL takes the segment for an index, and the
// filter does not: "-1", "01".
func oddIndex(segment string) bool {
	return arrayIndex.MatchString(segment) && (segment[0] < '0' || segment[0] > '9' || len(segment) > 1 && segment[0] == '0')
}
