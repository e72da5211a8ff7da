// Package jsonscan reads JSON text without building values: it checks that a
// text is the kind of JSON every backend can give back unchanged, and finds the
// value at a path.
package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest. MongoDB allows 100 levels,
// some of which a backend needs for itself.
const MaxDepth = 64

var errEnd = errors.New("unexpected end of JSON")

// Validate reports why data is not a JSON text that every backend keeps
// faithfully, or nil. Beyond RFC 8259 it asks for valid UTF-8, no NUL character,
// no lone surrogate, numbers within the range of a float64, and [MaxDepth].
func Validate(data []byte) error {
	s := scanner{data: data}
	s.space()
	if err := s.value(0); err != nil {
		return fmt.Errorf("%w (at byte %d)", err, s.pos)
	}
	s.space()
	if s.pos < len(data) {
		return fmt.Errorf("unexpected %q after the value (at byte %d)", data[s.pos], s.pos)
	}
	return nil
}

type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) error {
	if s.pos >= len(s.data) {
		return errEnd
	}
	switch c := s.data[s.pos]; {
	case c == '{':
		return s.object(depth + 1)
	case c == '[':
		return s.array(depth + 1)
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return fmt.Errorf("unexpected %q where a value should start", c)
	}
}

func (s *scanner) literal(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return fmt.Errorf("malformed literal, want %s", word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) object(depth int) error {
	return s.members(depth, '}', func() error {
		if s.pos >= len(s.data) {
			return errEnd
		}
		if s.data[s.pos] != '"' {
			return fmt.Errorf("unexpected %q where an object key should start", s.data[s.pos])
		}
		if err := s.str(); err != nil {
			return err
		}
		s.space()
		if s.pos >= len(s.data) || s.data[s.pos] != ':' {
			return errors.New("missing ':' after an object key")
		}
		s.pos++
		s.space()
		return s.value(depth)
	})
}

func (s *scanner) array(depth int) error {
	return s.members(depth, ']', func() error { return s.value(depth) })
}

// members scans what stands between brackets: comma-separated, none trailing.
func (s *scanner) members(depth int, closer byte, member func() error) error {
	if depth > MaxDepth {
		return fmt.Errorf("nested deeper than %d levels", MaxDepth)
	}
	s.pos++
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == closer {
		s.pos++
		return nil
	}
	for {
		if err := member(); err != nil {
			return err
		}
		s.space()
		if s.pos >= len(s.data) {
			return errEnd
		}
		switch s.data[s.pos] {
		case closer:
			s.pos++
			return nil
		case ',':
			s.pos++
			s.space()
		default:
			return fmt.Errorf("unexpected %q, want ',' or %q", s.data[s.pos], closer)
		}
	}
}

func (s *scanner) str() error {
	s.pos++
	for {
		for s.pos < len(s.data) && plain[s.data[s.pos]] {
			s.pos++
		}
		if s.pos == len(s.data) {
			return errEnd
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return fmt.Errorf("control character %#x inside a string", c)
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return errors.New("string is not valid UTF-8")
			}
			s.pos += size
		}
	}
}

// plain marks the bytes that stand for themselves inside a string: ASCII but for
// control characters, quote and backslash.
var plain = func() (table [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		return errEnd
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		return s.unicodeEscape()
	default:
		return fmt.Errorf("unknown escape \\%c", s.data[s.pos+1])
	}
}

func (s *scanner) unicodeEscape() error {
	r, ok := hex4(s.data[s.pos:])
	switch {
	case !ok:
		return errors.New("malformed \\u escape")
	case r == 0:
		return errors.New("string holds a NUL character")
	case r < 0xD800 || r > 0xDFFF:
		s.pos += 6
		return nil
	}
	low, ok := hex4(s.data[s.pos+6:])
	if r > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return errors.New("string holds a lone surrogate")
	}
	s.pos += 12
	return nil
}

// hex4 reads \uXXXX at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

func (s *scanner) number() error {
	start := s.pos
	if s.data[s.pos] == '-' {
		s.pos++
	}
	whole := s.digits()
	if whole == 0 {
		return errors.New("malformed number")
	}
	if first := s.data[s.pos-whole]; first == '0' && whole > 1 {
		return errors.New("number with a leading zero")
	}
	plain := true
	if s.at('.') {
		s.pos++
		plain = false
		if s.digits() == 0 {
			return errors.New("malformed number")
		}
	}
	mantissa := s.data[start:s.pos]
	if s.at('e') || s.at('E') {
		s.pos++
		plain = false
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if s.digits() == 0 {
			return errors.New("malformed number")
		}
	}
	if plain && s.pos-start < 300 {
		return nil
	}
	f, err := strconv.ParseFloat(string(s.data[start:s.pos]), 64)
	vanished := f == 0 && bytes.ContainsAny(mantissa, "123456789")
	if err != nil || math.IsInf(f, 0) || vanished {
		return errors.New("number out of range, the limit is that of a float64")
	}
	return nil
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}
