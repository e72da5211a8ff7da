package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

func TestParseWhere(t *testing.T) {
	t.Parallel()
	number := func(s string) any { return json.Number(s) }
	noon := time.Date(2018, 2, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]rheo.Condition{
		`properties.mag >= 5`:               rheo.Where("properties.mag", rheo.OpGe, number("5")),
		`properties.mag>=5`:                 rheo.Where("properties.mag", rheo.OpGe, number("5")),
		`  properties.mag>= 5.50  `:         rheo.Where("properties.mag", rheo.OpGe, number("5.50")),
		`n = 9223372036854775807`:           rheo.Where("n", rheo.OpEq, number("9223372036854775807")),
		`a < -1`:                            rheo.Where("a", rheo.OpLt, number("-1")),
		`a<=1`:                              rheo.Where("a", rheo.OpLe, number("1")),
		`a > 1`:                             rheo.Where("a", rheo.OpGt, number("1")),
		`type = earthquake`:                 rheo.Where("type", rheo.OpEq, "earthquake"),
		`type="quarry blast"`:               rheo.Where("type", rheo.OpEq, "quarry blast"),
		`type = quarry blast`:               rheo.Where("type", rheo.OpEq, "quarry blast"),
		`id = "1"`:                          rheo.Where("id", rheo.OpEq, "1"),
		`a = 1 2`:                           rheo.Where("a", rheo.OpEq, "1 2"),
		`a = 01`:                            rheo.Where("a", rheo.OpEq, "01"),
		`a = ""`:                            rheo.Where("a", rheo.OpEq, ""),
		`a = null`:                          rheo.Where("a", rheo.OpEq, nil),
		`a != true`:                         rheo.Where("a", rheo.OpNe, true),
		`a = =b`:                            rheo.Where("a", rheo.OpEq, "=b"),
		`url = http://x/?a=b`:               rheo.Where("url", rheo.OpEq, "http://x/?a=b"),
		`a in ["x", 1, null]`:               rheo.Where("a", rheo.OpIn, []any{"x", number("1"), nil}),
		`a in[1]`:                           rheo.Where("a", rheo.OpIn, []any{number("1")}),
		`a in []`:                           rheo.Where("a", rheo.OpIn, []any{}),
		`alert exists`:                      rheo.Where("alert", rheo.OpExists, nil),
		`a\ b\=c = 1`:                       rheo.Where(`a\ b\=c`, rheo.OpEq, number("1")),
		`a\.b = 1`:                          rheo.Where(`a\.b`, rheo.OpEq, number("1")),
		`metadata.a\ b\c = 1`:               rheo.Where(`metadata.a b\c`, rheo.OpEq, number("1")),
		`timestamp >= 2018-02-01T12:00:00Z`: rheo.Where("timestamp", rheo.OpGe, noon),
		`timestamp < "2018-02-01T13:00:00+01:00"`: rheo.Where("timestamp", rheo.OpLt, noon),
		`timestamp > 1517486400000`:               rheo.Where("timestamp", rheo.OpGt, noon),
		`timestamp in ["2018-02-01T12:00:00Z"]`:   rheo.Where("timestamp", rheo.OpIn, []any{noon}),
	}
	for text, want := range tests {
		got, err := parseWhere(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", text, got, err, want)
		}
	}
}

func TestParseWhereErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                 "has no path",
		`= 5`:              "has no path",
		`a`:                "has no operator",
		`a == 5`:           "equality is =",
		`a <> 5`:           `has no operator "<>"`,
		`a like x`:         `has no operator "like"`,
		`a =`:              "has no value",
		`a in`:             "has no value",
		`a in 5`:           "must have a JSON list",
		`a in x,y`:         "must have a JSON list",
		`a in [[1]]`:       "a list or an object",
		`a exists 5`:       "takes none",
		`a = {"b": 1}`:     "a list or an object",
		`a = [1]`:          "a list or an object",
		`timestamp = noon`: "is no time",
	} {
		if _, err := parseWhere(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseWhere(f *testing.F) {
	for _, seed := range []string{`a >= 5`, `metadata.x\=y="1"`, `a in ["b"]`, `a exists`, `\`, `a\`, `a=`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseWhere(text); err == nil && (c.Path == "" || c.Op == "") {
			t.Errorf("%q: %+v", text, c)
		}
	})
}
