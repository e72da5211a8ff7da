package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Lookup returns the raw value at path in a text that [Validate] accepts. A
// segment names an object's key or, where the value is an array, an index. Of a
// repeated key the last one counts, as in every JSON database.
func Lookup(data []byte, path []string) (raw []byte, ok bool) {
	s := scanner{data: data}
	s.space()
	for _, segment := range path {
		if s.pos >= len(s.data) {
			return nil, false
		}
		switch s.data[s.pos] {
		case '{':
			ok = s.seekKey(segment)
		case '[':
			ok = s.seekIndex(segment)
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	start := s.pos
	s.skip()
	return data[start:s.pos], true
}

// seekKey moves from an object's brace to the value of the key.
func (s *scanner) seekKey(key string) bool {
	found := -1
	s.pos++
	for s.next('}') {
		match := s.keyIs(key)
		s.space()
		s.pos++ // the colon
		s.space()
		if match {
			found = s.pos
		}
		s.skip()
	}
	if found >= 0 {
		s.pos = found
	}
	return found >= 0
}

func (s *scanner) seekIndex(segment string) bool {
	index, err := strconv.Atoi(segment)
	if err != nil || index < 0 || strconv.Itoa(index) != segment {
		return false
	}
	s.pos++
	for i := 0; s.next(']'); i++ {
		if i == index {
			return true
		}
		s.skip()
	}
	return false
}

// next moves to the next member's start; it is false at the closing bracket.
func (s *scanner) next(closer byte) bool {
	s.space()
	if s.at(',') {
		s.pos++
		s.space()
	}
	return s.pos < len(s.data) && s.data[s.pos] != closer
}

// keyIs compares the string at the position, and moves behind it.
func (s *scanner) keyIs(key string) bool {
	start := s.pos
	escaped := s.skipString()
	raw := s.data[start:s.pos]
	if !escaped {
		return string(raw[1:len(raw)-1]) == key
	}
	decoded, ok := String(raw)
	return ok && decoded == key
}

// skipString moves behind the string and says whether it holds an escape.
func (s *scanner) skipString() (escaped bool) {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case '\\':
			escaped = true
			s.pos++
		case '"':
			s.pos++
			return escaped
		}
	}
	return escaped
}

// skip moves behind the value at the position.
func (s *scanner) skip() {
	depth := 0
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.pos++
			continue
		case '}', ']':
			depth--
			s.pos++
		case ' ', '\t', '\n', '\r', ',', ':':
			s.pos++
			continue
		default:
			s.skipScalar()
		}
		if depth <= 0 {
			return
		}
	}
}

func (s *scanner) skipScalar() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return
		}
		s.pos++
	}
}

// String decodes a raw JSON string; ok is false if raw is another kind of value.
func String(raw []byte) (value string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') >= 0 {
		err := json.Unmarshal(raw, &value)
		return value, err == nil
	}
	return string(plain), true
}
