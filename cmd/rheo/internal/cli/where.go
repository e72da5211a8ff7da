package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rheo-go/rheo"
)

// parseWhere reads 'PATH OP VALUE', with or without space around OP:
//
//	properties.mag >= 5
//	type="quarry blast"
//	properties.net in ["us", "ak"]
//	properties.alert exists
//
// VALUE is JSON, or else a string as it stands. A backslash before a space or a
// character of an operator makes it part of the path.
func parseWhere(s string) (rheo.Condition, error) {
	path, rest := cutPath(strings.TrimSpace(s))
	if path == "" {
		return rheo.Condition{}, fmt.Errorf("%q has no path; write 'PATH OP VALUE'", s)
	}
	op, value, err := cutOp(strings.TrimSpace(rest))
	if err != nil {
		return rheo.Condition{}, fmt.Errorf("%q %w", s, err)
	}
	c := rheo.Condition{Path: path, Op: op}
	if c.Value, err = conditionValue(path, op, strings.TrimSpace(value)); err != nil {
		return rheo.Condition{}, fmt.Errorf("%q %w", s, err)
	}
	return c, nil
}

const opCharacters = "=!<>"

// cutPath cuts at the first space or operator that no backslash escapes.
func cutPath(s string) (path, rest string) {
	const ends = " \t" + opCharacters
	metadata := strings.HasPrefix(s, "metadata.")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			// Other escapes are the library's, and metadata has none.
			if !strings.ContainsRune(ends, rune(s[i+1])) || !metadata {
				b.WriteByte(s[i])
			}
			i++
			b.WriteByte(s[i])
		case strings.IndexByte(ends, s[i]) >= 0:
			return b.String(), s[i:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}

// cutOp takes the operator from the front.
func cutOp(s string) (op rheo.Op, value string, err error) {
	if s == "" {
		return "", "", errors.New("has no operator; it is one of = != > >= < <= in exists")
	}
	n := len(s) - len(strings.TrimLeft(s, opCharacters))
	if n == 0 {
		if n = strings.IndexAny(s, " \t[\"{"); n < 0 {
			n = len(s)
		}
	}
	switch op = rheo.Op(s[:n]); op {
	case rheo.OpEq, rheo.OpNe, rheo.OpGt, rheo.OpGe, rheo.OpLt, rheo.OpLe, rheo.OpIn, rheo.OpExists:
		return op, s[n:], nil
	case "==":
		return "", "", errors.New("has the operator ==; equality is =")
	}
	return "", "", fmt.Errorf("has no operator %q; it is one of = != > >= < <= in exists", s[:n])
}

func conditionValue(path string, op rheo.Op, text string) (any, error) {
	switch {
	case op == rheo.OpExists && text != "":
		return nil, errors.New("has a value behind exists, which takes none")
	case op == rheo.OpExists:
		return nil, nil
	case text == "":
		return nil, errors.New(`has no value; the empty string is ""`)
	}
	value, isJSON := decodeJSON(text)
	list, isList := value.([]any)
	switch {
	case op == rheo.OpIn && !isList:
		return nil, errors.New(`must have a JSON list behind in, as in: type in ["a", "b"]`)
	case op == rheo.OpIn:
		for i := range list {
			if err := scalarValue(path, &list[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case !isJSON:
		value = text
	}
	err := scalarValue(path, &value)
	return value, err
}

// decodeJSON reads a text that is JSON as a whole.
func decodeJSON(text string) (value any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil, false
	}
	_, err := d.Token()
	return value, errors.Is(err, io.EOF)
}

// scalarValue checks what a condition compares with; beside timestamp it becomes
// a time.
func scalarValue(path string, value *any) error {
	switch v := (*value).(type) {
	case []any, map[string]any:
		return errors.New("compares with a list or an object; a value is a string, a number, true, false or null")
	case json.Number, string:
		if path != "timestamp" {
			return nil
		}
		t, err := parseTime(fmt.Sprint(v))
		*value = t
		return err
	}
	return nil
}
