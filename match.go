package rheo

import (
	"cmp"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo/internal/jsonscan"
)

// Match reports whether the filter selects the event.
func (f *Filter) Match(e *Event) bool {
	if e.Sequence <= f.After || e.Sequence > f.Until || !slices.Contains(f.Partitions, e.Partition) {
		return false
	}
	if !f.From.IsZero() && e.Timestamp.Before(f.From) || !f.To.IsZero() && !e.Timestamp.Before(f.To) {
		return false
	}
	for i := range f.Predicates {
		if !f.Predicates[i].Match(e) {
			return false
		}
	}
	return true
}

// Match reports whether the event meets the condition.
func (p *Predicate) Match(e *Event) bool {
	got, there := p.lookup(e)
	switch p.Op {
	case OpExists:
		return there
	case OpNe:
		return !there || !equal(got, p.Values[0])
	case OpEq, OpIn:
		return there && slices.ContainsFunc(p.Values, func(v any) bool { return equal(got, v) })
	}
	order, ordered := compare(got, p.Values[0])
	if !there || !ordered {
		return false
	}
	switch p.Op {
	case OpGt:
		return order > 0
	case OpGe:
		return order >= 0
	case OpLt:
		return order < 0
	default:
		return order <= 0
	}
}

// composite stands for an object or array: it exists, and equals no scalar.
type composite struct{}

// lookup returns the field's value in the form of [Predicate].Values.
func (p *Predicate) lookup(e *Event) (value any, there bool) {
	switch p.Field {
	case FieldID:
		return e.ID, true
	case FieldType:
		return e.Type, p.Op != OpExists || e.Type != ""
	case FieldKey:
		return e.Key, p.Op != OpExists || e.Key != ""
	case FieldPartition:
		return json.Number(strconv.Itoa(e.Partition)), true
	case FieldSequence:
		return json.Number(strconv.FormatInt(e.Sequence, 10)), true
	case FieldTimestamp:
		return e.Timestamp, true
	case FieldMetadata:
		value, there = e.Metadata[p.Path[0]]
		return value, there
	}
	raw, there := jsonscan.Lookup(e.Payload, p.Path)
	if !there {
		return nil, false
	}
	return scalarOf(raw), true
}

func scalarOf(raw []byte) any {
	switch raw[0] {
	case '{', '[':
		return composite{}
	case '"':
		s, _ := jsonscan.String(raw)
		return s
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	return json.Number(raw)
}

func equal(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if x, ok := a.(bool); ok {
		y, ok := b.(bool)
		return ok && x == y
	}
	order, ok := compare(a, b)
	return ok && order == 0
}

// compare orders two values of the same type, one that has an order.
func compare(a, b any) (order int, ordered bool) {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true
		}
	case json.Number:
		if b, ok := b.(json.Number); ok {
			return compareNumbers(string(a), string(b)), true
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b), true
		}
	}
	return 0, false
}

// compareNumbers compares exactly, as a decimal database type does: integers
// beyond 2^53 and decimals such as 0.1 keep every digit.
func compareNumbers(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX == nil && errY == nil {
		return compareInts(x, y)
	}
	p, okP := new(big.Rat).SetString(a)
	q, okQ := new(big.Rat).SetString(b)
	if !okP || !okQ { // cannot be: both were validated
		return strings.Compare(a, b)
	}
	return p.Cmp(q)
}

func compareInts(a, b int64) int { return cmp.Compare(a, b) }
