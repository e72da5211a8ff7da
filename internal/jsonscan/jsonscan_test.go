package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/jsonscan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestValidate(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, valid := range map[string]bool{
		`null`:                             true,
		` {"a":[1,-0.5e+3,"x\n",true]} `:   true,
		`"\ud83d\ude00"`:                   true,
		`9223372036854775807`:              true,
		`1.7976931348623157e308`:           true,
		`{"":0,"$a.b":{"c.d":null}}`:       true,
		deep(jsonscan.MaxDepth):            true,
		strings.Repeat("9", 299):           true,
		``:                                 false,
		`{`:                                false,
		`{"a":1,}`:                         false,
		`[1 2]`:                            false,
		`01`:                               false,
		`1.`:                               false,
		`+1`:                               false,
		`tru`:                              false,
		`"a`:                               false,
		`"\x"`:                             false,
		"\"\x01\"":                         false,
		"\"\xff\"":                         false,
		`"\u0000"`:                         false,
		`"\ud83d"`:                         false,
		`"\ude00\ud83d"`:                   false,
		`"\ud83dx"`:                        false,
		`1e999`:                            false,
		strings.Repeat("9", 400):           false,
		`5e-324`:                           true,
		`-0.0e0`:                           true,
		`1e-400`:                           false,
		`-1e-99999999`:                     false,
		`null null`:                        false,
		`{1:2}`:                            false,
		`{"a" 1}`:                          false,
		deep(jsonscan.MaxDepth + 1):        false,
		strings.Repeat(`{"a":`, 100) + `1`: false,
	} {
		if err := jsonscan.Validate([]byte(text)); (err == nil) != valid {
			t.Errorf("Validate(%.40q) = %v, want valid=%t", text, err, valid)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	const text = ` { "a" : {"b":[10,{"c":"x"} , []]}, "d.e":1, "q\"":true, "a2":null, "dup":1, "dup":[2] } `
	for _, c := range []struct {
		path string
		want string
	}{
		{"a|b|0", `10`},
		{"a|b|1|c", `"x"`},
		{"a|b|2", `[]`},
		{"a|b|3", ``},
		{"a|b|01", ``},
		{"a|b|-1", ``},
		{"a|b|x", ``},
		{"a|b", `[10,{"c":"x"} , []]`},
		{"d.e", `1`},
		{`q"`, `true`},
		{"a2", `null`},
		{"a2|x", ``},
		{"d", ``},
		{"dup", `[2]`},
	} {
		raw, ok := jsonscan.Lookup([]byte(text), strings.Split(c.path, "|"))
		if string(raw) != c.want || ok != (c.want != "") {
			t.Errorf("Lookup(%s) = %s, %t; want %s", c.path, raw, ok, c.want)
		}
	}
}

// Whatever Validate accepts, the standard library accepts too, and Lookup never
// panics on it.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5e3,"\u00e9",{"b":null}]}`), "a")
	f.Add([]byte(`"\ud83d\ude00"`), "0")
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		if jsonscan.Validate(data) != nil {
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		raw, ok := jsonscan.Lookup(data, []string{key})
		if ok && !json.Valid(raw) {
			t.Fatalf("Lookup(%q, %q) = %q", data, key, raw)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	data := []byte(`{"type":"Feature","properties":{"mag":0.31,"place":"37km NNE of Amboy, Washington","time":1517363399650,"felt":null},"geometry":{"coordinates":[-122.197,46.2035,3.28]}}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := jsonscan.Validate(data); err != nil {
			b.Fatal(err)
		}
	}
}
