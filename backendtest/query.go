package backendtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

func queryCases() []testCase {
	return []testCase{
		{name: "equality is typed", run: equalityIsTyped},
		{name: "in and exists", run: inAndExists},
		{name: "ranges stay within a type", run: rangesStayWithinAType},
		{name: "numbers compare exactly", run: numbersCompareExactly},
		{name: "strings compare by bytes", run: stringsCompareByBytes},
		{name: "paths into the payload", run: pathsIntoThePayload},
		{name: "the payload as a whole", run: payloadAsAWhole},
		{name: "the event's own fields", run: ownFields},
		{name: "IDs that are there and IDs that are not", run: idsThereOrNot},
		{name: "metadata", run: metadataConditions},
		{name: "hostile values are plain data", run: hostileValues},
		{name: "conditions are combined", run: conditionsAreCombined},
		{name: "time bounds", run: timeBounds},
		{name: "sequence bounds", run: sequenceBounds},
		{name: "partitions", needs: []need{needsPartitions}, run: queryPartitions},
		{name: "order", needs: []need{needsPartitions, needsOrder}, run: queryOrder},
		{name: "limit", run: queryLimit},
		{name: "random queries agree with a naive evaluation", run: randomQueries},
	}
}

// document appends events with these payloads: "id payload" each.
func (s *subject) documents(lines ...string) {
	s.Helper()
	events := make([]rheo.Event, len(lines))
	for i, line := range lines {
		id, payload, _ := strings.Cut(line, " ")
		events[i] = rheo.Event{ID: id, Payload: []byte(payload)}
	}
	s.append(events...)
}

// mixed has a field v of every type.
func (s *subject) mixed() {
	s.Helper()
	s.create(1)
	s.documents(
		`one {"v":1}`, `dot {"v":1.0}`, `exp {"v":10e-1}`, `two {"v":2}`, `ten {"v":10}`, `neg {"v":-1}`, `half {"v":0.5}`,
		`s1 {"v":"1"}`, `s2 {"v":"2"}`, `s10 {"v":"10"}`, `s1.0 {"v":"1.0"}`, `empty {"v":""}`, `strue {"v":"true"}`, `snull {"v":"null"}`,
		`t {"v":true}`, `f {"v":false}`, `null {"v":null}`, `missing {"w":1}`,
		`obj {"v":{"v":1}}`, `arr {"v":[1]}`, `noobj {"v":{}}`, `noarr {"v":[]}`,
	)
}

func equalityIsTyped(s *subject) {
	s.mixed()
	const all = "one dot exp two ten neg half s1 s2 s10 s1.0 empty strue snull t f null missing obj arr noobj noarr"
	without := func(ids string) string {
		var rest []string
		for id := range strings.FieldsSeq(all) {
			if !strings.Contains(" "+ids+" ", " "+id+" ") {
				rest = append(rest, id)
			}
		}
		return strings.Join(rest, " ")
	}
	type text string
	for _, c := range []struct {
		value any
		ids   string
	}{
		{1, "one dot exp"},
		{1.0, "one dot exp"},
		{uint8(1), "one dot exp"},
		{json.Number("1.00"), "one dot exp"},
		{float32(0.5), "half"},
		{int64(-1), "neg"},
		{0, ""},
		{"1", "s1"},
		{text("1"), "s1"},
		{"1.0", "s1.0"},
		{"", "empty"},
		{"true", "strue"},
		{true, "t"},
		{false, "f"},
		{nil, "null"},
		{"null", "snull"},
		{"[1]", ""},
		{"{}", ""},
		{`{"v":1}`, ""},
		{"[]", ""},
		{"t", ""},
	} {
		s.selects("v", rheo.OpEq, c.value, c.ids)
		s.selects("payload.v", rheo.OpEq, c.value, c.ids)
		s.selects("v", rheo.OpNe, c.value, without(c.ids))
	}
	s.selects("nowhere", rheo.OpEq, nil, "")
	s.selects("nowhere", rheo.OpNe, nil, all)
	s.selects("v.v", rheo.OpEq, 1, "obj")
	s.selects("v.0", rheo.OpEq, 1, "arr")
}

func inAndExists(s *subject) {
	s.mixed()
	s.selects("v", rheo.OpIn, []any{}, "")
	s.selects("v", rheo.OpIn, []any{1, "2", nil, false}, "one dot exp s2 f null")
	s.selects("v", rheo.OpIn, []int{1, 2, 3}, "one dot exp two")
	s.selects("v", rheo.OpIn, []string{"1", "", "1", "none"}, "s1 empty")
	s.selects("v", rheo.OpIn, []any{"true"}, "strue")
	s.selects("id", rheo.OpIn, []string{"ten", "two", "eleven"}, "two ten")
	s.selects("v", rheo.OpExists, nil,
		"one dot exp two ten neg half s1 s2 s10 s1.0 empty strue snull t f null obj arr noobj noarr")
	s.selects("w", rheo.OpExists, nil, "missing")
	s.selects("v.v", rheo.OpExists, nil, "obj")
	s.selects("v.v.v", rheo.OpExists, nil, "")
	s.selects("v.0", rheo.OpExists, nil, "arr")
	s.selects("v.1", rheo.OpExists, nil, "")
	many := []string{"t", "1"}
	for i := range 2000 {
		many = append(many, fmt.Sprint("id-", i))
	}
	s.selects("id", rheo.OpIn, many, "t")
	s.selects("v", rheo.OpIn, many, "s1")
}

func rangesStayWithinAType(s *subject) {
	s.mixed()
	s.selects("v", rheo.OpGt, 1, "two ten")
	s.selects("v", rheo.OpGe, 1, "one dot exp two ten")
	s.selects("v", rheo.OpLt, 1, "neg half")
	s.selects("v", rheo.OpLe, 1, "one dot exp neg half")
	s.selects("v", rheo.OpGt, -1000, "one dot exp two ten neg half")
	s.selects("v", rheo.OpGt, "1", "s2 s10 s1.0 strue snull")
	s.selects("v", rheo.OpGe, "1", "s1 s2 s10 s1.0 strue snull")
	s.selects("v", rheo.OpLt, "2", "s1 s10 s1.0 empty")
	s.selects("v", rheo.OpLe, "2", "s1 s2 s10 s1.0 empty")
	s.selects("v", rheo.OpLe, "", "empty")
	s.selects("v", rheo.OpGe, "", "s1 s2 s10 s1.0 empty strue snull")
	s.selects("nowhere", rheo.OpGt, 0, "")
	s.selects("nowhere", rheo.OpLt, "z", "")
}

func numbersCompareExactly(s *subject) {
	s.create(1)
	s.documents(
		`a {"n":9007199254740992}`, `b {"n":9007199254740993}`, `c {"n":9007199254740994}`,
		`d {"n":9223372036854775806}`, `e {"n":9223372036854775807}`, `f {"n":9.223372036854775807e18}`, `g {"n":18446744073709551615}`,
		`h {"n":-9223372036854775808}`, `i {"n":0.1}`, `j {"n":0.10000000000000000555}`, `k {"n":1e-1}`, `l {"n":0.3}`,
		`m {"n":0.30000000000000004}`, `n {"n":-0}`, `o {"n":0.0}`, `p {"n":1e300}`,
	)
	n := func(s string) json.Number { return json.Number(s) }
	s.selects("n", rheo.OpEq, int64(9007199254740993), "b")
	s.selects("n", rheo.OpIn, []any{int64(9007199254740992), n("9007199254740994.0")}, "a c")
	s.selects("n", rheo.OpGt, int64(9223372036854775806), "e f g p")
	s.selects("n", rheo.OpEq, int64(9223372036854775807), "e f")
	s.selects("n", rheo.OpEq, uint64(18446744073709551615), "g")
	s.selects("n", rheo.OpLe, int64(-9223372036854775808), "h")
	s.selects("n", rheo.OpEq, 0.1, "i k")
	s.selects("n", rheo.OpGt, n("0.1"), "a b c d e f g j l m p")
	s.selects("n", rheo.OpEq, n("0.10000000000000000555"), "j")
	s.selects("n", rheo.OpEq, n("0.30"), "l")
	s.selects("n", rheo.OpEq, 0.1+0.2, "l") // constants: exactly 0.3
	s.selects("n", rheo.OpEq, 0, "n o")
	s.selects("n", rheo.OpEq, 1e300, "p")
	s.selects("n", rheo.OpLt, n("-1e18"), "h")
}

func stringsCompareByBytes(s *subject) {
	s.create(1)
	s.documents(
		`a {"v":"a"}`, `B {"v":"B"}`, `b {"v":"b"}`, `aa {"v":"aa"}`, `as {"v":"a "}`, `e {"v":"\u00e9"}`, `e2 {"v":"e\u0301"}`,
		`wide {"v":"\uff5e"}`, `rocket {"v":"\ud83d\ude80"}`, `low {"v":"_"}`, `ten {"v":"10"}`, `nine {"v":"9"}`,
	)
	s.selects("v", rheo.OpEq, "b", "b")
	s.selects("v", rheo.OpEq, "a", "a")
	s.selects("v", rheo.OpEq, "é", "e")
	s.selects("v", rheo.OpLt, "a", "B low ten nine")
	s.selects("v", rheo.OpGt, "a", "b aa as e e2 wide rocket")
	s.selects("v", rheo.OpGt, "aa", "b e e2 wide rocket")
	s.selects("v", rheo.OpGe, "é", "e wide rocket")
	s.selects("v", rheo.OpGt, "\uff5e", "rocket") // not so in UTF-16
	s.selects("v", rheo.OpLt, "9", "ten")
	s.selects("id", rheo.OpLt, "a", "B")
	s.selects("id", rheo.OpGe, "rocket", "wide rocket ten")
}

func pathsIntoThePayload(s *subject) {
	s.create(1)
	s.documents(
		`nested {"a":{"b":{"c":1}}}`, `dotted {"a.b":{"c":2}}`, `all {"a.b.c":3}`,
		`list {"l":[10,20,{"x":[30,40]}]}`, `keys {"l":{"0":10,"1":20,"01":30}}`,
		`slash {"a\\b":4,"\\":5,"a\\.b":6}`, `own {"payload":{"x":7},"id":"8","metadata":{"x":9},"type":10}`,
		`odd {"a b":11,"'":12,"\"":13,"$x":14,"*":15,"[0]":16,"->":17,"%":18,"?":19,"a->b":20,"{}":21}`,
		`last {"twice":22,"twice":23}`, `uni {"ключ":{"🚀":24}}`, `case {"A":{"B":{"C":25}}}`,
	)
	for path, want := range map[string]string{
		"a.b.c": "nested 1", `a\.b.c`: "dotted 2", `a\.b\.c`: "all 3", "payload.a.b.c": "nested 1",
		"l.2.x.1": "list 40", "l.01": "keys 30", `a\\b`: "slash 4", `\\`: "slash 5", `a\\\.b`: "slash 6",
		"payload.payload.x": "own 7", "payload.metadata.x": "own 9", "payload.type": "own 10",
		"a b": "odd 11", "'": "odd 12", `"`: "odd 13", "$x": "odd 14", "*": "odd 15", "[0]": "odd 16", "->": "odd 17", "%": "odd 18",
		"?": "odd 19", "a->b": "odd 20", "{}": "odd 21", "twice": "last 23", "ключ.🚀": "uni 24", "A.B.C": "case 25",
	} {
		id, value, _ := strings.Cut(want, " ")
		s.selects(path, rheo.OpEq, json.Number(value), id)
		s.selects(path, rheo.OpExists, nil, id)
	}
	s.selects("l.0", rheo.OpEq, 10, "list keys")
	s.selects("l.1", rheo.OpGe, 20, "list keys")
	s.selects("payload.id", rheo.OpEq, "8", "own")
	s.selects("twice", rheo.OpEq, 22, "")
	for _, path := range []string{"l.-1", "l.3", "l.+0", "l.x", "l.2.x.0 ", "a.b.c.d", "a.b.C", "a*", "%.b"} {
		s.selects(path, rheo.OpExists, nil, "")
	}
}

func payloadAsAWhole(s *subject) {
	s.create(1)
	s.documents(`num 5`, `str "x"`, `null null`, `list [1,"x"]`, `obj {"0":1}`, `yes true`)
	s.selects("payload", rheo.OpEq, 5, "num")
	s.selects("payload", rheo.OpEq, "x", "str")
	s.selects("payload", rheo.OpEq, nil, "null")
	s.selects("payload", rheo.OpNe, true, "num str null list obj")
	s.selects("payload", rheo.OpGt, 4, "num")
	s.selects("payload", rheo.OpExists, nil, "num str null list obj yes")
	s.selects("0", rheo.OpEq, 1, "list obj")
	s.selects("payload.1", rheo.OpEq, "x", "list")
}

func ownFields(s *subject) {
	s.create(1)
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i, id := range strings.Fields("a b c") {
		e := event(id)
		e.Timestamp = noon.Add(time.Duration(i) * time.Microsecond)
		if i > 0 {
			e.Key, e.Type = fmt.Sprint("key", i), fmt.Sprint("type", i)
		}
		s.append(e)
	}
	for _, c := range []struct {
		path  string
		op    rheo.Op
		value any
		ids   string
	}{
		{"id", rheo.OpEq, "b", "b"},
		{"id", rheo.OpNe, "b", "a c"},
		{"id", rheo.OpGt, "a", "b c"},
		{"id", rheo.OpExists, nil, "a b c"},
		{"id", rheo.OpEq, 1, ""},
		{"type", rheo.OpEq, "type1", "b"},
		{"type", rheo.OpEq, "", "a"},
		{"type", rheo.OpExists, nil, "b c"},
		{"type", rheo.OpNe, "type1", "a c"},
		{"type", rheo.OpEq, nil, ""},
		{"type", rheo.OpGe, "type2", "c"},
		{"key", rheo.OpEq, "key2", "c"},
		{"key", rheo.OpEq, "", "a"},
		{"key", rheo.OpExists, nil, "b c"},
		{"key", rheo.OpIn, []string{"key1", ""}, "a b"},
		{"key", rheo.OpLe, "key1", "a b"},
		{"key", rheo.OpEq, strings.Repeat("k", 100_000), ""},
		{"key", rheo.OpEq, nil, ""},
		{"type", rheo.OpEq, strings.Repeat("t", 100_000), ""},
		{"partition", rheo.OpEq, 0, "a b c"},
		{"partition", rheo.OpGt, 0, ""},
		{"partition", rheo.OpEq, "0", ""},
		{"partition", rheo.OpExists, nil, "a b c"},
		{"sequence", rheo.OpEq, 2, "b"},
		{"sequence", rheo.OpGe, 2, "b c"},
		{"sequence", rheo.OpIn, []int{1, 3, 9}, "a c"},
		{"sequence", rheo.OpLt, 1.5, "a"},
		{"sequence", rheo.OpNe, 2, "a c"},
		{"sequence", rheo.OpEq, "2", ""},
		{"timestamp", rheo.OpEq, noon, "a"},
		{"timestamp", rheo.OpGt, noon, "b c"},
		{"timestamp", rheo.OpLe, "2026-01-31T12:00:00.000001Z", "a b"},
		{"timestamp", rheo.OpGe, "2026-01-31T13:00:00.000002+01:00", "c"},
		{"timestamp", rheo.OpNe, noon, "b c"},
		{"timestamp", rheo.OpLt, noon, ""},
		{"timestamp", rheo.OpIn, []any{noon, "2026-01-31T12:00:00.000002Z"}, "a c"},
		{"timestamp", rheo.OpExists, nil, "a b c"},
		{"timestamp", rheo.OpLt, noon.Add(1500 * time.Nanosecond), "a b"},
		{"timestamp", rheo.OpEq, noon.Add(1), ""},
	} {
		s.selects(c.path, c.op, c.value, c.ids)
	}
}

// Many events, so that a store's index by ID, if it has one, comes into play.
func idsThereOrNot(s *subject) {
	s.create(1)
	n := s.scaled(3000)
	s.fill(0, n)
	for _, id := range []string{"", "0", "0-", "0-0", "0-1x", "0-99999", "1-1", "zzz", " ", "🚀", "\n", strings.Repeat("0", 300), strings.Repeat("z", 100_000)} {
		s.selects("id", rheo.OpEq, id, "")
		s.selects("id", rheo.OpIn, []any{id, nil, 1}, "")
		s.selects("id", rheo.OpIn, []string{"0-7", id, "0-3", "0-7"}, "0-3 0-7")
	}
	for _, sequence := range []int{1, 2, n / 2, n - 1, n} {
		id := name(0, int64(sequence))
		s.selects("id", rheo.OpEq, id, id)
	}
	last := name(0, int64(n))
	s.selects("id", rheo.OpIn, []string{last, "0-1"}, "0-1 "+last)
}

func metadataConditions(s *subject) {
	s.create(1)
	for id, metadata := range map[string]map[string]string{
		"a": {"k": "1", "a.b": "dots", `a\.b`: "slash"}, "b": {"k": "", "$x": "y"}, "c": nil, "d": {"K": "1", "a": "x", "'": "quote"},
	} {
		e := event(id)
		e.Metadata = metadata
		e.Payload = []byte(`{"metadata":{"k":"1"},"k":"1"}`)
		s.append(e)
	}
	for _, c := range []struct {
		path  string
		op    rheo.Op
		value any
		ids   string
	}{
		{"metadata.k", rheo.OpEq, "1", "a"},
		{"metadata.k", rheo.OpEq, "", "b"},
		{"metadata.k", rheo.OpEq, 1, ""},
		{"metadata.k", rheo.OpEq, nil, ""},
		{"metadata.k", rheo.OpExists, nil, "a b"},
		{"metadata.k", rheo.OpNe, "1", "b c d"},
		{"metadata.k", rheo.OpIn, []string{"1", ""}, "a b"},
		{"metadata.k", rheo.OpGe, "", "a b"},
		{"metadata.k", rheo.OpGt, "", "a"},
		{"metadata.a.b", rheo.OpEq, "dots", "a"},
		{`metadata.a\.b`, rheo.OpEq, "slash", "a"},
		{"metadata.a", rheo.OpExists, nil, "d"},
		{"metadata.$x", rheo.OpEq, "y", "b"},
		{"metadata.'", rheo.OpEq, "quote", "d"},
		{"metadata.none", rheo.OpExists, nil, ""},
		{"metadata.none", rheo.OpLt, "z", ""},
	} {
		found, err := s.in.Query(s.Context(), s.stream, rheo.Query{Where: []rheo.Condition{rheo.Where(c.path, c.op, c.value)}})
		s.noError(err)
		equalList(s, fmt.Sprintf("%s %s %#v", c.path, c.op, c.value), sorted(eventIDs(found)), strings.Fields(c.ids))
	}
}

var hostile = []string{
	"'; DROP TABLE events; --", `"`, `\`, `\'`, "%", "_", "a%b_c", "$1", "$where", "{}", "[]", "null", "{{x}}", "a\nb", "\t", " ", "  x  ",
	"🚀", "ключ", "e\u0301", "*", "?", ":name", "@p1", "/*", "--", "`", "\u2028", "a,b", "(a)", "<b>", "&amp;",
}

func hostileValues(s *subject) {
	s.create(1)
	for i, v := range hostile {
		raw, err := json.Marshal(map[string]any{"v": v, v: i})
		s.noError(err)
		e := rheo.Event{ID: fmt.Sprint("h", i), Key: v, Metadata: map[string]string{"m": v}, Payload: raw}
		s.append(e)
	}
	for i, v := range hostile {
		id := fmt.Sprint("h", i)
		for _, path := range []string{"v", "key", "metadata.m"} {
			s.selects(path, rheo.OpEq, v, id)
		}
		s.selects("payload."+strings.NewReplacer(`\`, `\\`, ".", `\.`).Replace(v), rheo.OpEq, i, id)
	}
	s.selects("v", rheo.OpIn, hostile, strings.Join(s.query(rheo.Query{}), " "))
}
