package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

// TestMeasure is the issue's own measure: the feed appended twice, two groups
// consumed, a search that finds what an independent computation finds.
func TestMeasure(t *testing.T) {
	t.Parallel()
	onEach(t, measure)
}

func measure(s *shellOf) {
	t := s.t
	file, quakes := feed(t)
	s.ok("stream", "create", "quakes", "--partitions", "4")
	s.ok("group", "create", "quakes", "archive")
	s.ok("group", "create", "quakes", "alarms", "--max-attempts", "3")
	var first, second appendResult
	s.json(&first, appendQuakes(file)...)
	s.json(&second, appendQuakes(file)...)
	if want := (appendResult{"quakes", 1707, 1707, 0}); first != want {
		t.Errorf("appended %+v, want %+v", first, want)
	}
	if want := (appendResult{"quakes", 1707, 0, 1707}); second != want {
		t.Errorf("appended again %+v, want %+v", second, want)
	}

	for _, group := range []string{"archive", "alarms"} {
		seen := ids(events(t, s.ok("consume", "quakes", group, "--until-empty")))
		if len(seen) != 1707 {
			t.Errorf("%s has seen %d IDs, want 1707", group, len(seen))
		}
		var lag rheo.Lag
		s.json(&lag, "lag", "quakes", group)
		if lag.Lag != 0 || lag.Stream != "quakes" || lag.Group != group || len(lag.Partitions) != 4 {
			t.Errorf("lag of %s: %+v", group, lag)
		}
	}

	want := make(map[string]bool)
	for _, quake := range quakes {
		if mag, ok := quake["properties"].(map[string]any)["mag"].(float64); ok && mag >= 5 {
			want[quake["id"].(string)] = true
		}
	}
	got := ids(events(t, s.ok("query", "quakes", "--where", "properties.mag>=5", "--json")))
	if len(want) != 39 || !maps.Equal(got, want) {
		t.Errorf("found %d, want the %d of %v", len(got), len(want), want)
	}
}

func TestAppendedFields(t *testing.T) {
	t.Parallel()
	onEach(t, checkAppendedFields)
}

func checkAppendedFields(s *shellOf) {
	t := s.t
	quakes := s.appendFeed()
	found := events(t, s.ok("read", "quakes", "--json"))
	if len(found) != len(quakes) {
		t.Fatalf("read %d events, want %d", len(found), len(quakes))
	}
	byID := make(map[string]map[string]any)
	for _, quake := range quakes {
		byID[quake["id"].(string)] = quake
	}
	next := map[int]int64{}
	for _, e := range found {
		next[e.Partition]++
		p := byID[e.ID]["properties"].(map[string]any)
		if e.Stream != "quakes" || e.Key != p["net"] || e.Type != p["type"] || e.Sequence != next[e.Partition] ||
			e.Timestamp.UnixMilli() != int64(p["time"].(float64)) {
			t.Fatalf("%+v, appended from %v", e, byID[e.ID])
		}
	}
	last := events(t, s.ok("read", "quakes", "--partition", "2", "--after", strconv.FormatInt(next[2]-3, 10), "--limit", "2", "--json"))
	if len(last) != 2 || last[0].Partition != 2 || last[0].Sequence != next[2]-2 {
		t.Errorf("read --partition --after --limit: %+v", last)
	}
}

func TestQueryFlags(t *testing.T) {
	t.Parallel()
	onEach(t, checkQueryFlags)
}

func checkQueryFlags(s *shellOf) {
	t := s.t
	quakes := s.appendFeed()
	const from, to = 1517529600000, 1517616000000 // 2 February 2018
	var times []int64
	for _, quake := range quakes {
		p := quake["properties"].(map[string]any)
		if at := int64(p["time"].(float64)); at >= from && at < to && slices.Contains([]any{"us", "ak"}, p["net"]) {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	slices.Reverse(times)
	var got []int64
	for _, e := range events(t, s.ok("query", "quakes", "--where", `key in ["us", "ak"]`, "--from", "2018-02-02", "--to", "1517616000000",
		"--order-by", "timestamp", "--order", "desc", "--limit", "20", "--json")) {
		got = append(got, e.Timestamp.UnixMilli())
	}
	if !slices.Equal(got, times[:20]) {
		t.Errorf("got %v, want %v", got, times[:20])
	}
	for _, e := range events(t, s.ok("query", "quakes", "--partitions", "1,3", "--after", "2", "--until", "4", "--json")) {
		if e.Partition%2 != 1 || e.Sequence < 3 || e.Sequence > 4 {
			t.Errorf("%+v", e)
		}
	}
	table := s.ok("query", "quakes", "--where", "properties.mag >= 6.4")
	if n := strings.Count(table, "\n"); n != 2 {
		t.Errorf("%d lines, want a heading and an event:\n%s", n, table)
	}
	contains(t, table, "PARTITION  SEQUENCE  TIME", "2018-02-06 15:50:42Z", "earthquake", "us1000chhc")
}

// TestJSON holds the documents' fields, which others parse.
func TestJSON(t *testing.T) {
	t.Parallel()
	onEach(t, checkJSON)
}

func checkJSON(s *shellOf) {
	t := s.t
	s.ok("stream", "create", "orders", "--partitions", "2")
	s.stdin = `{"n":1}`
	s.ok("append", "orders", "--partition", "1")
	s.ok("group", "create", "orders", "billing", "--max-attempts", "1", "--ordering", "partition")
	fields := func(args ...string) string {
		t.Helper()
		var document any
		s.json(&document, args...)
		return strings.Join(keysOf(document), " ")
	}
	const streamFields = "created_at events high_watermarks name partitions"
	const groupFields = "created_at dead_letters full group in_flight lag max_attempts oldest_unacked_seconds ordering partitions " +
		"partitions.cursor partitions.frontier partitions.full partitions.high_watermark partitions.in_flight partitions.lag " +
		"partitions.oldest_unacked_seconds partitions.partition partitions.waiting stream waiting"
	const lagFields = "group lag partitions partitions.frontier partitions.high_watermark partitions.lag partitions.partition stream"
	for want, args := range map[string][]string{
		streamFields:            {"stream", "info", "orders"},
		streamFields + " ":      {"stream", "list"},
		groupFields:             {"group", "info", "orders", "billing"},
		groupFields + " ":       {"group", "list", "orders"},
		lagFields:               {"lag", "orders", "billing"},
		lagFields + " ":         {"reset", "orders", "billing", "--confirm"},
		"group replayed stream": {"replay", "orders", "billing", "--from-sequence", "1"},
		"group redriven stream": {"dead-letters", "redrive", "orders", "billing"},
		"ready store":           {"migrate"},
	} {
		if got := fields(args...); got != strings.TrimSpace(want) {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	s.ok("consume", "orders", "billing", "--until-empty", "--exec", "exit 1")
	const letter = "attempts dead_lettered_at event event.id event.key event.metadata event.partition event.payload event.payload.n " +
		"event.sequence event.stream event.timestamp event.type event_id partition reason sequence"
	if got := fields("dead-letters", "list", "orders", "billing"); got != letter {
		t.Errorf("dead letter: %s, want %s", got, letter)
	}
	s.ok("dead-letters", "redrive", "orders", "billing")
	if got := s.ok("dead-letters", "list", "orders", "billing", "--json"); got != "[]\n" {
		t.Errorf("no dead letters: %q", got)
	}
}

// keysOf lists a document's keys, dotted; those of a list are its first element's.
func keysOf(document any) []string {
	var keys []string
	switch v := document.(type) {
	case []any:
		if len(v) > 0 {
			return keysOf(v[0])
		}
	case map[string]any:
		for key, value := range v {
			keys = append(keys, key)
			for _, below := range keysOf(value) {
				keys = append(keys, key+"."+below)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

func TestGroups(t *testing.T) {
	t.Parallel()
	onEach(t, checkGroups)
}

func checkGroups(s *shellOf) {
	t := s.t
	s.ok("stream", "create", "n", "--partitions", "1")
	s.stdin = "1\n2\n3\n4\n5\n"
	s.ok("append", "n")
	payloads := func(group string) (found []string) {
		t.Helper()
		for _, e := range events(t, s.ok("consume", "n", group, "--until-empty")) {
			found = append(found, string(e.Payload))
		}
		return found
	}
	for from, want := range map[string]string{"start": "1 2 3 4 5", "end": "", "4": "4 5", "2000-01-01": "1 2 3 4 5", "9000-01-01": ""} {
		s.ok("group", "create", "n", "from-"+from, "--from", from)
		if got := strings.Join(payloads("from-"+from), " "); got != want {
			t.Errorf("--from %s: %s, want %s", from, got, want)
		}
	}
	const group = "from-start"
	s.ok("replay", "n", group, "--from-sequence", "4")
	if got := strings.Join(payloads(group), " "); got != "4 5" {
		t.Errorf("replayed %s", got)
	}
	contains(t, s.ok("replay", "n", group, "--where", "payload in [2, 5]"), "2 events of stream n")
	if got := strings.Join(payloads(group), " "); got != "2 5" {
		t.Errorf("replayed %s", got)
	}
	id := events(t, s.ok("read", "n", "--limit", "1", "--json"))[0].ID
	s.ok("replay", "n", group, "--ids", id)
	if got := strings.Join(payloads(group), " "); got != "1" {
		t.Errorf("replayed %s", got)
	}
	s.ok("replay", "n", group, "--from-time", "2000-01-01", "--partitions", "0")
	s.ok("consume", "n", group, "--count", "2")
	if got := strings.Join(payloads(group), " "); got != "3 4 5" {
		t.Errorf("after --count 2: %s", got)
	}
	s.ok("reset", "n", group, "--confirm", "--from", "5")
	if got := strings.Join(payloads(group), " "); got != "5" {
		t.Errorf("after reset: %s", got)
	}
	contains(t, s.ok("group", "list", "n"), "GROUP", "from-start", "from-end")
	contains(t, s.ok("group", "info", "n", group), "group from-start of stream n: 0 events behind", "FRONTIER")
	contains(t, s.ok("stream", "list"), "STREAM", "n")
	contains(t, s.ok("stream", "info", "n"), "5 events in 1 partition")
	contains(t, s.ok("lag", "n", group), "HIGH WATERMARK", "all")
}

func TestAppendPaths(t *testing.T) {
	t.Parallel()
	onEach(t, checkAppendPaths)
}

func checkAppendPaths(s *shellOf) {
	t := s.t
	s.ok("stream", "create", "n", "--partitions", "4")
	s.stdin = "\xef\xbb\xbf{\"a.b\":{\"id\":1}}\r\n\n  {\"a.b\":{\"id\":2}}  \n{\"a.b\":{\"id\":1}}"
	contains(t, s.ok("append", "n", "-", "--id", `a\.b.id`, "--partition", "3", "--batch", "2"), "appended 2 events to stream n; 1 there already")
	var got []string
	for _, e := range events(t, s.ok("read", "n", "--json")) {
		got = append(got, strconv.Itoa(e.Partition), e.ID, string(e.Payload))
	}
	if want := []string{"3", "1", `{"a.b":{"id":1}}`, "3", "2", `{"a.b":{"id":2}}`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAppendFromRegularStdin: a redirected file is checked as a whole, too.
func TestAppendFromRegularStdin(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok("stream", "create", "n")
	file, err := os.Open(writeFile(t, "x", "1\n2\n{\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stderr strings.Builder
	code := Run(t.Context(), s.args([]string{"append", "n", "--batch", "1"}), file, &strings.Builder{}, &stderr)
	if code != exitFailed {
		t.Errorf("exit %d", code)
	}
	contains(t, stderr.String(), "<stdin>:3: invalid JSON", "nothing was appended")
	if left := s.ok("read", "n", "--json"); left != "" {
		t.Errorf("in the stream: %s", left)
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	s := &shellOf{t: t, store: "memory:"}
	var report benchReport
	s.json(&report, "bench", "--events", "200", "--batch", "1,10", "--callers", "1,2", "--time", "10s")
	var rows []string
	for _, r := range report.Results {
		rows = append(rows, r.Operation)
		if r.Events != 200 || r.EventsPerSecond <= 0 || r.Store != "memory" {
			t.Errorf("%+v", r)
		}
		if measured := r.P50Milliseconds != nil; measured != (r.Operation == "cycle" || r.Operation == "latency") {
			t.Errorf("%s has a latency: %v", r.Operation, measured)
		}
	}
	if got, want := strings.Join(rows, " "), "append append append append fetch+settle fetch+settle cycle cycle latency"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	contains(t, s.ok("bench", "--events", "10", "--callers", "1", "--batch", "2"), "EVENTS/S", "memory    latency")
}

func TestBenchOfStore(t *testing.T) {
	t.Parallel()
	onEach(t, func(s *shellOf) {
		kind, _, _ := strings.Cut(s.store, ":")
		contains(s.t, s.ok("bench", "--events", "20", "--callers", "2", "--batch", "3"), kind, "fetch+settle", "latency")
	})
}

func TestMigratePrint(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.ok("migrate", "--print"), "embedded: stores have no schema")
	if r := s.run("stream", "list"); r.code != exitFailed {
		t.Errorf("migrate --print has made a store: %+v", r)
	}
	contains(t, s.ok("migrate"), "is ready")
	if got := s.ok("stream", "list", "--json"); got != "[]\n" {
		t.Errorf("streams: %s", got)
	}
}

func TestPayloadsComeBack(t *testing.T) {
	t.Parallel()
	onEach(t, checkPayloads)
}

func checkPayloads(s *shellOf) {
	t := s.t
	s.ok("stream", "create", "n")
	s.stdin = `{"a":"<&>\u2028ü","n":9223372036854775807,"d":0.10,"x":[null,true,{}]}` + "\n"
	s.ok("append", "n")
	var got, want any
	if err := json.Unmarshal(events(t, s.ok("read", "n", "--json"))[0].Payload, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(s.stdin), &want); err != nil {
		t.Fatal(err)
	}
	if a, b := mustJSON(t, got), mustJSON(t, want); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
	contains(t, s.ok("read", "n", "--json"), "9223372036854775807", "<&>")
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLinger: a batch does not wait for a pipe to fill it, and the end of ctx, a
// Ctrl-C, does not wait for the pipe.
func TestLinger(t *testing.T) {
	t.Parallel()
	inst, err := rheo.New(memory.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inst.Close()
	if err := inst.CreateStream(t.Context(), "n", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	pipe, writer := io.Pipe()
	ap := &appender{app: &app{}, inst: inst, stream: "n", batch: 100}
	done := make(chan error)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() { done <- ap.append(ctx, &input{name: "pipe", reader: pipe}) }()
	for n := range int64(3) {
		if _, err := io.WriteString(writer, "1\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the event is in the stream", func() bool {
			info, err := inst.StreamInfo(t.Context(), "n")
			return err == nil && info.Events() == n+1
		})
	}
	interrupt()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the 3 events of lines 1 to 3 are in the stream") {
		t.Error(err)
	}
	writer.Close()
}
