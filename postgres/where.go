package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// where is a condition in SQL. What came from a caller, paths included, is in
// the arguments.
type where struct {
	sql       string
	arguments []any
}

func (w *where) clone() where {
	return where{sql: w.sql, arguments: slices.Clone(w.arguments)}
}

// argument adds one and returns its place in the statement.
func (w *where) argument(v any) string {
	w.arguments = append(w.arguments, v)
	return "$" + strconv.Itoa(len(w.arguments))
}

// and adds a condition; each %s of it stands for an argument.
func (w *where) and(condition string, arguments ...any) {
	places := make([]any, len(arguments))
	for i, v := range arguments {
		places[i] = w.argument(v)
	}
	if w.sql != "" {
		w.sql += " AND "
	}
	w.sql += fmt.Sprintf(condition, places...)
}

// translate returns a condition that lets through every event that the filter's
// predicates and times select, and few others: what is not said in SQL just as
// the filter means it is left out.
func translate(f *rheo.Filter) where {
	var w where
	if at, ok := wholeMicros(f.From); ok && !f.From.IsZero() {
		w.and("e.ts >= %s::timestamptz", at)
	}
	if at, ok := wholeMicros(f.To); ok && !f.To.IsZero() {
		w.and("e.ts < %s::timestamptz", at)
	}
	for i := range f.Predicates {
		p := &f.Predicates[i]
		switch p.Field {
		case rheo.FieldID:
			w.text(p, "e.id", false)
		case rheo.FieldType:
			w.text(p, "e.type", true)
		case rheo.FieldKey:
			w.text(p, "e.key", true)
		case rheo.FieldPartition:
			w.number(p, "e.partition")
		case rheo.FieldSequence:
			w.number(p, "e.sequence")
		case rheo.FieldTimestamp:
			w.time(p)
		case rheo.FieldMetadata:
			w.metadata(p)
		case rheo.FieldPayload:
			w.payload(p)
		}
	}
	if w.sql == "" {
		w.sql = "TRUE"
	}
	return w
}

// wholeMicros rounds up to what the database keeps, and says whether it can keep
// such a time at all. Of whole microseconds, those from t on and those from the
// next whole one on are the same.
func wholeMicros(t time.Time) (time.Time, bool) {
	whole := t.Truncate(time.Microsecond)
	if whole.Before(t) {
		whole = whole.Add(time.Microsecond)
	}
	return whole.UTC(), t.Year() >= 1 && t.Year() <= 9999
}

// typed returns the values of one type, and all but never-equal conditions on the
// others: an = on a value of another type selects nothing, a != everything.
func typed[T any](w *where, p *rheo.Predicate) (values []T, decided bool) {
	for _, v := range p.Values {
		if t, ok := v.(T); ok {
			values = append(values, t)
		}
	}
	if len(values) > 0 || p.Op == rheo.OpExists {
		return values, false
	}
	if p.Op != rheo.OpNe {
		w.and("FALSE")
	}
	return nil, true
}

// sqlOp is the operator of one-valued conditions; <> is never NULL where missing
// fields have been taken care of.
func sqlOp(op rheo.Op) string {
	if op == rheo.OpNe {
		return "IS DISTINCT FROM"
	}
	return string(op)
}

// text is about a column, whose collation compares bytes.
func (w *where) text(p *rheo.Predicate, column string, mayBeEmpty bool) {
	values, decided := typed[string](w, p)
	switch {
	case decided:
	case p.Op == rheo.OpExists && mayBeEmpty:
		w.and(column + " <> ''")
	case p.Op == rheo.OpExists:
	case p.Op == rheo.OpIn:
		w.and(column+" = ANY (%s::text[])", values)
	default:
		w.and(column+" "+sqlOp(p.Op)+" %s::text", values[0])
	}
}

func (w *where) number(p *rheo.Predicate, column string) {
	values, decided := typed[json.Number](w, p)
	if decided || p.Op == rheo.OpExists || !slices.ContainsFunc(values, plainNumber) {
		return
	}
	if p.Op == rheo.OpIn {
		list := make([]string, 0, len(values))
		for _, v := range values {
			if !plainNumber(v) {
				return
			}
			list = append(list, v.String())
		}
		w.and(column+"::numeric = ANY (%s::text[]::numeric[])", list)
		return
	}
	if n, err := values[0].Int64(); err == nil {
		w.and(column+" "+sqlOp(p.Op)+" %s::bigint", n)
		return
	}
	w.and(column+"::numeric "+sqlOp(p.Op)+" %s::text::numeric", values[0].String())
}

// plainNumber reports whether the database's decimal type takes the number
// whole: it may have an exponent of a thousand, not of a million.
func plainNumber(n json.Number) bool {
	const most = 1000
	_, exponent, found := strings.Cut(strings.ToLower(string(n)), "e")
	if e, err := strconv.Atoi(exponent); found && (err != nil || e > most || e < -most) {
		return false
	}
	return len(n) <= most
}

func (w *where) time(p *rheo.Predicate) {
	values, decided := typed[time.Time](w, p)
	if decided || p.Op == rheo.OpExists {
		return
	}
	for _, v := range values {
		if _, ok := wholeMicros(v); !ok || !v.Equal(v.Truncate(time.Microsecond)) {
			return
		}
	}
	if p.Op == rheo.OpIn {
		w.and("e.ts = ANY (%s::timestamptz[])", values)
	} else {
		w.and("e.ts "+sqlOp(p.Op)+" %s::timestamptz", values[0])
	}
}

func (w *where) metadata(p *rheo.Predicate) {
	name := p.Path[0]
	values, decided := typed[string](w, p)
	switch {
	case decided:
	case p.Op == rheo.OpExists:
		w.and("(e.metadata ->> %s::text) IS NOT NULL", name)
	case p.Op == rheo.OpIn:
		w.and("(e.metadata ->> %s::text) = ANY (%s::text[])", name, values)
	case p.Op == rheo.OpEq:
		w.and("(e.metadata ->> %s::text) = %s::text", name, values[0])
		w.and("e.metadata @> %s::jsonb", nested(p.Path, jsonOf(values[0])))
	default:
		w.and("(e.metadata ->> %s::text) COLLATE \"C\" "+sqlOp(p.Op)+" %s::text", name, values[0])
	}
}
