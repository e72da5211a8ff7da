package rheo

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo/internal/jsonscan"
)

// Filter is a [Query] as a backend gets it: checked, with its paths parsed and
// its values in one form. [Filter.Match] is the reference for what it selects;
// a backend may translate all or part of it for its store and must come to the
// same result.
type Filter struct {
	Predicates   []Predicate
	Partitions   []int     // ascending; never empty
	From, To     time.Time // timestamp in [From, To); zero = unbounded
	After, Until int64     // sequence in (After, Until]; Until is MaxInt64 if unbounded
	OrderBy      OrderBy
	Descending   bool
}

// Field is the part of an event that a [Predicate] looks at.
type Field int

// The fields, as [Condition] names them.
const (
	FieldID Field = iota + 1
	FieldType
	FieldKey
	FieldPartition
	FieldSequence
	FieldTimestamp
	FieldMetadata
	FieldPayload
)

// Predicate is one condition of a [Filter].
type Predicate struct {
	Field Field
	// Path is the metadata's name as its one element, the payload's segments, or
	// nothing for the event's own fields and the payload as a whole.
	Path []string
	Op   Op
	// Values has one element, for OpIn any number, for OpExists none. Each is
	// nil, a bool, a string, a [json.Number] or, for FieldTimestamp alone, a
	// [time.Time].
	Values []any
}

var ownFields = map[string]Field{
	"id": FieldID, "type": FieldType, "key": FieldKey, "partition": FieldPartition,
	"sequence": FieldSequence, "timestamp": FieldTimestamp, "payload": FieldPayload,
}

func (q *Query) compile(partitions int) (Filter, error) {
	f := Filter{
		From: q.From, To: q.To, After: q.After, Until: q.Until,
		OrderBy: q.OrderBy, Descending: q.Descending,
	}
	if err := q.check(partitions); err != nil {
		return Filter{}, err
	}
	if f.Until == 0 {
		f.Until = math.MaxInt64
	}
	f.Partitions = everyPartition(q.Partitions, partitions)
	for _, c := range q.Where {
		p, err := c.compile()
		if err != nil {
			return Filter{}, err
		}
		f.Predicates = append(f.Predicates, p)
	}
	return f, nil
}

func (q *Query) check(partitions int) error {
	if err := checkPartitions(q.Partitions, partitions); err != nil {
		return err
	}
	switch {
	case q.Limit < 0:
		return invalidf("limit", "is %d, must not be negative", q.Limit)
	case q.Limit > MaxBatch:
		return invalidf("limit", "is %d, a page has at most %d", q.Limit, MaxBatch)
	case q.After < 0 || q.Until < 0:
		return invalidf("sequence bound", "must not be negative")
	case q.OrderBy != BySequence && q.OrderBy != ByTimestamp:
		return invalidf("order", "is %d, must be BySequence or ByTimestamp", q.OrderBy)
	}
	return nil
}

// everyPartition returns the partitions named, ascending, or all n of them.
func everyPartition(named []int, n int) []int {
	if len(named) > 0 {
		named = slices.Clone(named)
		slices.Sort(named)
		return named
	}
	all := make([]int, n)
	for p := range all {
		all[p] = p
	}
	return all
}

func (c Condition) compile() (Predicate, error) {
	p := Predicate{Op: c.Op}
	var err error
	if p.Field, p.Path, err = parsePath(c.Path); err != nil {
		return Predicate{}, err
	}
	values := []any{c.Value}
	switch c.Op {
	case OpExists:
		if c.Value != nil {
			return Predicate{}, invalidf("condition on "+c.Path, "must have no value beside exists")
		}
		return p, nil
	case OpIn:
		if values, err = elements(c); err != nil {
			return Predicate{}, err
		}
	case OpEq, OpNe, OpGt, OpGe, OpLt, OpLe:
	default:
		return Predicate{}, invalidf("operator", "is %q, must be = != > >= < <= in or exists", string(c.Op))
	}
	for _, v := range values {
		v, err := p.value(c.Path, v)
		if err != nil {
			return Predicate{}, err
		}
		p.Values = append(p.Values, v)
	}
	return p, nil
}

func elements(c Condition) ([]any, error) {
	list := reflect.ValueOf(c.Value)
	if list.Kind() != reflect.Slice {
		return nil, invalidf("condition on "+c.Path, "must have a list of values beside in")
	}
	values := make([]any, list.Len())
	for i := range values {
		values[i] = list.Index(i).Interface()
	}
	return values, nil
}

func parsePath(path string) (Field, []string, error) {
	if err := checkText("path", path, MaxKeyBytes); err != nil {
		return 0, nil, err
	}
	if field, ok := ownFields[path]; ok {
		return field, nil, nil
	}
	if name, ok := strings.CutPrefix(path, "metadata."); ok && name != "" {
		return FieldMetadata, []string{name}, nil
	}
	segments, err := splitPath(strings.TrimPrefix(path, "payload."))
	return FieldPayload, segments, err
}

// splitPath cuts at the dots that no backslash escapes.
func splitPath(path string) ([]string, error) {
	var segments []string
	var segment strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path):
			i++
			segment.WriteByte(path[i])
		case path[i] == '.':
			segments = append(segments, segment.String())
			segment.Reset()
		default:
			segment.WriteByte(path[i])
		}
	}
	segments = append(segments, segment.String())
	if slices.Contains(segments, "") {
		return nil, invalidf("path", "%q has an empty segment", path)
	}
	return segments, nil
}

// value brings a condition's value to the form that [Predicate] documents.
func (p *Predicate) value(path string, v any) (any, error) {
	field := "condition on " + path
	if p.Field == FieldTimestamp {
		return timestampValue(field, v)
	}
	v, err := scalar(field, v)
	if err != nil {
		return nil, err
	}
	if p.Op != OpEq && p.Op != OpNe && p.Op != OpIn {
		switch v.(type) {
		case string, json.Number:
		default:
			return nil, invalidf(field, "compares with %v; only numbers and strings have an order", v)
		}
	}
	return v, nil
}

func timestampValue(field string, v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC(), nil
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return nil, invalidf(field, "must have an RFC 3339 time, not %q", v)
		}
		return t.UTC(), nil
	}
	return nil, invalidf(field, "must have a time or an RFC 3339 string, not %T", v)
}

func scalar(field string, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		return v, checkText(field, v, MaxPayloadDefault)
	case json.Number:
		return number(field, v)
	}
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return json.Number(strconv.FormatInt(n.Int(), 10)), nil
	case n.CanUint():
		return json.Number(strconv.FormatUint(n.Uint(), 10)), nil
	case n.CanFloat():
		return number(field, json.Number(strconv.FormatFloat(n.Float(), 'g', -1, n.Type().Bits())))
	case n.Kind() == reflect.String:
		return n.String(), checkText(field, n.String(), MaxPayloadDefault)
	}
	return nil, invalidf(field, "has a value of type %T, must be a JSON scalar", v)
}

func number(field string, n json.Number) (any, error) {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	if jsonscan.Validate([]byte(n)) != nil || n[0] != '-' && !isDigit(n[0]) || !isDigit(n[len(n)-1]) {
		return nil, invalidf(field, "has the number %q, which JSON cannot express", n)
	}
	return n, nil
}
