package mongo

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rheo-go/rheo"
)

// A term stands for "this field has this value": a hash of both, so that the index
// on the payload stays small whatever is in it. Two may have the same hash, since
// what an index finds is matched again.

// anyTerm is the term of documents that hold more than is indexed: every lookup
// finds them, too.
const anyTerm int64 = 0

// What is indexed of an event at most.
const (
	mostTerms = 200
	mostDepth = 16
)

// termsOf returns the terms of events, ascending, each once.
func termsOf(events []*rheo.Event) []int64 {
	var t termList
	for _, e := range events {
		t.left = mostTerms
		for name, value := range e.Metadata {
			t.add("m", []string{name}, "s"+value)
		}
		t.payload(e.Payload)
	}
	slices.Sort(t.terms)
	return slices.Compact(t.terms)
}

// lookupTerms returns the terms of the values that a predicate asks for.
func lookupTerms(p *rheo.Predicate) []int64 {
	kind := "p"
	if p.Field == rheo.FieldMetadata {
		kind = "m"
	}
	terms := []int64{anyTerm}
	for _, v := range p.Values {
		terms = append(terms, term(kind, p.Path, scalarText(v)))
	}
	return terms
}

func term(kind string, path []string, value string) int64 {
	h := fnv.New64a()
	for _, part := range append([]string{kind}, path...) {
		_, _ = h.Write([]byte(part + "\x00")) // it never fails
	}
	_, _ = h.Write([]byte("\x01" + value))
	if sum := int64(h.Sum64()); sum != anyTerm {
		return sum
	}
	return 1
}

type termList struct {
	terms []int64
	left  int // for this event
}

func (t *termList) add(kind string, path []string, value string) {
	if t.left == 0 {
		t.terms = append(t.terms, anyTerm)
		return
	}
	t.left--
	t.terms = append(t.terms, term(kind, path, value))
}

func (t *termList) payload(raw json.RawMessage) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := t.value(d, nil); err != nil {
		t.terms = append(t.terms, anyTerm) // cannot be: it was validated
	}
}

// value reads the next value and adds the terms of what is in it. Of a key that is
// there twice both values are added.
func (t *termList) value(d *json.Decoder, path []string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	delimiter, composite := token.(json.Delim)
	if !composite {
		t.scalar(path, token)
		return nil
	}
	for i := 0; d.More(); i++ {
		segment := strconv.Itoa(i)
		if delimiter == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			segment = name.(string)
		}
		if err := t.value(d, append(path, segment)); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func (t *termList) scalar(path []string, v any) {
	if len(path) > mostDepth {
		t.left = 0
	}
	t.add("p", path, scalarText(v))
}

// scalarText is the same for equal values, and for them alone: numbers by their
// value, whatever their notation.
func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return "s" + v
	case bool:
		return "b" + strconv.FormatBool(v)
	case json.Number:
		return "n" + plainNumber(string(v))
	}
	return "null"
}

// plainNumber writes a JSON number as its digits, without zeros at either end, and
// the power of ten that they are multiplied with.
func plainNumber(n string) string {
	digits, negative := strings.CutPrefix(n, "-")
	exponent := 0
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(digits[at+1:]); err != nil {
			exponent = math.MaxInt32 // beyond any use, and all alike
		}
		digits = digits[:at]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	for strings.HasSuffix(digits, "0") {
		digits = digits[:len(digits)-1]
		exponent++
	}
	switch {
	case digits == "":
		return "0"
	case negative:
		digits = "-" + digits
	}
	return digits + "e" + strconv.Itoa(exponent)
}
