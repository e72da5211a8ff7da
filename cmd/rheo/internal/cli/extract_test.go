package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

func pathOf(t *testing.T, s string) path {
	t.Helper()
	var p path
	if err := p.Set(s); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookup(t *testing.T) {
	t.Parallel()
	const document = ` {"a": {"b": [10, {"c": "x\"]}"}, [1,2]]}, "d.e": 1, "f\\g": 2, "n": null, "e": {}, "l": [],
		"t": true, "z": 1, "z": 2, "ü": -1.5e3, "\u0061\u0062": "escaped"} `
	for at, want := range map[string]string{
		`a.b.0`:      `10`,
		`a.b.1.c`:    `"x\"]}"`,
		`a.b.2`:      `[1,2]`,
		`a.b.2.1`:    `2`,
		`d\.e`:       `1`,
		`f\\g`:       `2`,
		`n`:          `null`,
		`e`:          `{}`,
		`l`:          `[]`,
		`t`:          `true`,
		`z`:          `2`, // the last one counts
		`ü`:          `-1.5e3`,
		`ab`:         `"escaped"`,
		`a.b.3`:      ``,
		`a.b.-1`:     ``,
		`a.b.c`:      ``,
		`a.b.0.c`:    ``,
		`l.0`:        ``,
		`e.x`:        ``,
		`n.x`:        ``,
		`missing`:    ``,
		`\u0061`:     ``,
		`a.b.1.c.d`:  ``,
		`a.b.2.1.00`: ``,
	} {
		raw, ok := lookup([]byte(document), pathOf(t, at))
		if string(raw) != want || ok != (want != "") {
			t.Errorf("%s: %s, %v; want %s", at, raw, ok, want)
		}
	}
	for _, scalar := range []string{`1`, `"a"`, `null`, ` [ ] `, `{}`} {
		if raw, ok := lookup([]byte(scalar), path{"a"}); ok {
			t.Errorf("%s: %s", scalar, raw)
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add(`{"a":{"b":[1,"x",{"c":null}]}}`, "a", "b", "2")
	f.Add(`[[],[[]],{}]`, "1", "0", "0")
	f.Fuzz(func(t *testing.T, document, a, b, c string) {
		if !json.Valid([]byte(document)) {
			t.Skip("not JSON")
		}
		raw, ok := lookup([]byte(document), path{a, b, c})
		if ok && !json.Valid(raw) {
			t.Errorf("%s at %q %q %q: %s", document, a, b, c, raw)
		}
	})
}

func TestEventFields(t *testing.T) {
	t.Parallel()
	noon := time.Date(2018, 2, 1, 12, 0, 0, 0, time.UTC)
	paths := fieldPaths{id: path{"id"}, key: path{"p", "net"}, kind: path{"p", "type"}, time: path{"p", "time"}}
	for line, want := range map[string]rheo.Event{
		`{"id":"a","p":{"net":"us","type":"q","time":1517486400000}}`:          {ID: "a", Key: "us", Type: "q", Timestamp: noon},
		`{"id":12345678901234567890,"p":{"time":"2018-02-01T13:00:00+01:00"}}`: {ID: "12345678901234567890", Timestamp: noon},
		`{"id":"a","p":{"net":null,"type":null,"time":1517486400000.5}}`:       {ID: "a", Timestamp: noon.Add(500 * time.Microsecond)},
		`{"id":"ü","p":{"net":7,"time":-1}}`:                                   {ID: "ü", Key: "7", Timestamp: time.UnixMilli(-1)},
	} {
		e, err := paths.event([]byte(line))
		if err != nil || e.ID != want.ID || e.Key != want.Key || e.Type != want.Type || !e.Timestamp.Equal(want.Timestamp) || string(e.Payload) != line {
			t.Errorf("%s: %+v, %v", line, e, err)
		}
	}
	for line, want := range map[string]string{
		`{"id":"a"`:                               "invalid JSON at byte 9: unexpected end",
		`{"id":"a"} {}`:                           "invalid JSON at byte 12",
		`nonsense`:                                "invalid JSON at byte 2: invalid character",
		`{"p":{"time":1}}`:                        "nothing at --id id",
		`{"id":null,"p":{"time":1}}`:              "nothing at --id id",
		`{"id":"","p":{"time":1}}`:                "nothing at --id id",
		`{"id":["x"],"p":{"time":1}}`:             `--id id is ["x"]; it must be a string or a number`,
		`{"id":"a","p":{"net":true}}`:             "--key p.net is true",
		`{"id":"a","p":{"type":{}}}`:              "--type p.type is {}",
		`{"id":"a","p":{}}`:                       "nothing at --time p.time",
		`{"id":"a","p":{"time":"yesterday"}}`:     `--time p.time is "yesterday"; it must be milliseconds since 1970 or an RFC 3339 string`,
		`{"id":"a","p":{"time":1e300}}`:           "--time p.time is 1e300",
		`{"id":"a","p":{"time":true}}`:            "--time p.time is true",
		`{"id":"a","p":{"time":999999999999999}}`: "years 1 to 9999",
	} {
		if _, err := paths.event([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	var none fieldPaths
	if e, err := none.event([]byte(`5`)); err != nil || e.ID != "" || !e.Timestamp.IsZero() {
		t.Errorf("without paths: %+v, %v", e, err)
	}
}

func TestPathErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "a.", ".a", "a..b"} {
		var p path
		if err := p.Set(text); err == nil {
			t.Errorf("%q is a path: %q", text, p)
		}
	}
}
