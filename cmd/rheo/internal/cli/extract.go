package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// fieldPaths say where in a line of input an event's fields are.
type fieldPaths struct {
	id, key, kind, time path
}

// path leads to a value in a JSON document. It is a flag's value: dotted, with a
// backslash before a dot or backslash that belongs to a name.
type path []string

func (p *path) String() string { return strings.Join(*p, ".") }

// Type implements pflag.Value.
func (*path) Type() string { return "PATH" }

// Set implements pflag.Value.
func (p *path) Set(s string) error {
	var segment strings.Builder
	*p = nil
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			segment.WriteByte(s[i])
		case s[i] == '.':
			*p = append(*p, segment.String())
			segment.Reset()
		default:
			segment.WriteByte(s[i])
		}
	}
	*p = append(*p, segment.String())
	if slices.Contains(*p, "") {
		return errors.New("must be a dotted path such as properties.id, with no empty part")
	}
	return nil
}

// event makes an event of a line of input.
func (f *fieldPaths) event(line []byte) (rheo.Event, error) {
	if !json.Valid(line) {
		return rheo.Event{}, invalidJSON(line)
	}
	e := rheo.Event{Payload: line}
	var err error
	if e.ID, err = textAt(line, f.id, "--id"); err != nil {
		return rheo.Event{}, err
	}
	if f.id != nil && e.ID == "" {
		return rheo.Event{}, fmt.Errorf("nothing at --id %s", f.id.String())
	}
	if e.Key, err = textAt(line, f.key, "--key"); err != nil {
		return rheo.Event{}, err
	}
	if e.Type, err = textAt(line, f.kind, "--type"); err != nil {
		return rheo.Event{}, err
	}
	e.Timestamp, err = timeAt(line, f.time)
	return e, err
}

func invalidJSON(line []byte) error {
	var value any
	err := json.Unmarshal(line, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("invalid JSON at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("invalid JSON: %w", err)
}

// textAt returns the string at the path, or a number as it is written, or "" for
// null or nothing.
func textAt(line []byte, p path, flag string) (string, error) {
	raw, there := lookup(line, p)
	if p == nil || !there || raw[0] == 'n' {
		return "", nil
	}
	switch raw[0] {
	case '"':
		return unquoted(raw), nil
	case '{', '[', 't', 'f':
		return "", fmt.Errorf("%s %s is %s; it must be a string or a number", flag, p.String(), excerpt(string(raw)))
	}
	return string(raw), nil
}

// timeAt returns the time at the path: milliseconds since 1970, or RFC 3339.
func timeAt(line []byte, p path) (time.Time, error) {
	if p == nil {
		return time.Time{}, nil
	}
	raw, there := lookup(line, p)
	switch {
	case !there || raw[0] == 'n':
		return time.Time{}, fmt.Errorf("nothing at --time %s", p.String())
	case raw[0] == '"':
		if t, err := time.Parse(time.RFC3339Nano, unquoted(raw)); err == nil {
			return checkYear(t)
		}
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		if ms, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return checkYear(time.UnixMilli(ms))
		}
		const most = 1e15 // beyond any year allowed
		if ms, err := strconv.ParseFloat(string(raw), 64); err == nil && ms > -most && ms < most {
			return checkYear(time.UnixMicro(int64(ms * 1000)))
		}
	}
	return time.Time{}, fmt.Errorf("--time %s is %s; it must be milliseconds since 1970 or an RFC 3339 string",
		p.String(), excerpt(string(raw)))
}

func unquoted(raw []byte) string {
	var s string
	_ = json.Unmarshal(raw, &s) // a string of a document that is valid
	return s
}

// lookup returns the raw value at the path of a valid JSON document. In a list a
// segment is an index from 0. Of a name that is there twice the last one counts.
func lookup(document []byte, p path) (raw []byte, ok bool) {
	s := scanner{document, 0}
	s.space()
	for _, segment := range p {
		switch s.peek() {
		case '{':
			ok = s.toMember(segment)
		case '[':
			ok = s.toElement(segment)
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	start := s.at
	s.value()
	return document[start:s.at], true
}

// scanner walks over a JSON document that is known to be valid.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) peek() byte { return s.text[s.at] }

// space skips what lies between values, too: a comma or a colon.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) toMember(name string) bool {
	found := -1
	s.at++
	for s.space(); s.peek() != '}'; s.space() {
		start := s.at
		s.value()
		match := isName(s.text[start:s.at], name)
		s.space()
		if match {
			found = s.at
		}
		s.value()
	}
	if found >= 0 {
		s.at = found
	}
	return found >= 0
}

func isName(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unquoted(raw) == name
	}
	return string(raw[1:len(raw)-1]) == name
}

func (s *scanner) toElement(index string) bool {
	wanted, err := strconv.ParseUint(index, 10, 31)
	if err != nil {
		return false
	}
	s.at++
	for s.space(); s.peek() != ']'; s.space() {
		if wanted == 0 {
			return true
		}
		wanted--
		s.value()
	}
	return false
}

// value moves behind the value at the position.
func (s *scanner) value() {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.quoted()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.word()
		}
		if depth <= 0 {
			return
		}
		s.space()
	}
}

func (s *scanner) quoted() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

func (s *scanner) word() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return
		}
		s.at++
	}
}
