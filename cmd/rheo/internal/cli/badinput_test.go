package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

// TestBadInput: each message says what and where, and how to go on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok("stream", "create", "quakes", "--partitions", "4")
	s.ok("group", "create", "quakes", "alarms")
	s.ok("group", "create", "quakes", "some", "--partitions", "1")
	store := s.store
	long := strings.Repeat("x", 256)
	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"append", "nope", "-"}, 1, []string{"stream not found", `"nope"`, "stream create nope --partitions 4", store}},
		{[]string{"read", "nope"}, 1, []string{"stream not found", "stream list"}},
		{[]string{"consume", "nope", "g"}, 1, []string{"stream not found"}},
		{[]string{"consume", "quakes", "nope"}, 1, []string{"group not found", `"nope"`, "group create quakes nope"}},
		{[]string{"consume", "quakes", "nope", "--until-empty"}, 1, []string{"group not found"}},
		{[]string{"lag", "quakes", "a b"}, 1, []string{"group not found", "group create quakes 'a b'"}},
		{[]string{"stream", "create", "quakes"}, 1, []string{"already exists", `"quakes"`}},
		{[]string{"group", "create", "quakes", "alarms"}, 1, []string{"already exists"}},
		{[]string{"stream", "create", long}, 1, []string{"stream has 256 bytes, must have 1 to 255"}},
		{[]string{"group", "create", "quakes", long}, 1, []string{"group has 256 bytes"}},
		{[]string{"stream", "create", "a\x00b"}, 1, []string{"printable"}},
		{[]string{"read", "quakes", "--partition", "4"}, 1, []string{"partition is 4, the stream has partitions 0 to 3"}},
		{[]string{"query", "quakes", "--partitions", "0,7"}, 1, []string{"partition is 7"}},
		{[]string{"consume", "quakes", "alarms", "--partitions", "9"}, 1, []string{"partition is 9"}},
		{[]string{"consume", "quakes", "alarms", "--concurrency", "9", "--max-demand", "2"}, 1, []string{"MaxDemand is 2"}},
		{[]string{"replay", "quakes", "alarms", "--ids", "nobody"}, 1, []string{`id "nobody" is not in stream "quakes"`, "nothing was replayed"}},
		{[]string{"query", "quakes", "--where", "a..b = 1"}, 1, []string{"empty segment"}},
		{[]string{"query", "quakes", "--where", "a > true"}, 1, []string{"only numbers and strings have an order"}},
		{[]string{"append", "quakes", "/nowhere/at/all"}, 1, []string{"/nowhere/at/all"}},
		{[]string{"append", "quakes", filepath.Dir(strings.TrimPrefix(store, "embedded:"))}, 1, []string{"is a directory"}},
		{[]string{"--store", "embedded:" + filepath.Join(t.TempDir(), "none"), "stream", "list"}, 1, []string{"there is no store in", "stream create NAME"}},
		{[]string{"demo"}, 1, []string{"already exists", "a store without that stream"}},

		{[]string{"--store", "quakes", "stream", "list"}, 2, []string{`"quakes" does not begin with one of embedded:, memory:, mongodb:, mongodb+srv:, postgres:, postgresql:, redis:, redis+cluster:, rediss:, rediss+cluster:, sqlite:`}},
		{[]string{"--store", "pg://u:s3cret@h/db", "stream", "list"}, 2, []string{"pg://u:xxxxx@h/db"}},
		{[]string{"--store", "embedded:", "stream", "list"}, 2, []string{"needs a directory"}},
		{[]string{"postgres://u:s3cret@h/db"}, 2, []string{"postgres://u:xxxxx@h/db"}},
		{[]string{"migrate", "--index", "payload"}, 2, []string{"embedded: stores have no index on payload"}},
		{[]string{"migrate", "--index", "all"}, 2, []string{"must be payload"}},
		{[]string{"--store", "memory:", "demo"}, 2, []string{"embedded:DIR"}},
		{[]string{"strem"}, 2, []string{"did you mean stream?"}},
		{[]string{"stream"}, 2, []string{"needs a command: create, info, list"}},
		{[]string{"stream", "make", "x"}, 2, []string{`no command "make"`}},
		{[]string{"stream", "create"}, 2, []string{"accepts 1 arg"}},
		{[]string{"stream", "create", "x", "--partitions", "0"}, 2, []string{"a whole number from 1 to 1024"}},
		{[]string{"group", "create", "quakes", "g", "--ordering", "key"}, 2, []string{"must be none or partition"}},
		{[]string{"group", "create", "quakes", "g", "--from", "soon"}, 2, []string{"must be start, end, a sequence, or a time"}},
		{[]string{"append", "quakes", "--bogus"}, 2, []string{"unknown flag: --bogus", "rheo append --help"}},
		{[]string{"append", "quakes", "--batch", "10001"}, 2, []string{"from 1 to 10000"}},
		{[]string{"append", "quakes", "--id", "a..b"}, 2, []string{"a dotted path"}},
		{[]string{"query", "quakes", "--where", "mag == 5"}, 2, []string{"equality is ="}},
		{[]string{"query", "quakes", "--from", "noon"}, 2, []string{`"noon" is no time`}},
		{[]string{"query", "quakes", "--order", "up"}, 2, []string{"must be asc or desc"}},
		{[]string{"consume", "quakes", "alarms", "--lease", "1ms"}, 2, []string{"must be a duration from 10ms to 24h0m0s"}},
		{[]string{"replay", "quakes", "alarms"}, 2, []string{"at least one of the flags", "from-sequence"}},
		{[]string{"replay", "quakes", "alarms", "--from-sequence", "1", "--ids", "a"}, 2, []string{"none of the others can be"}},
		{[]string{"replay", "quakes", "alarms", "--from-sequence", "0"}, 2, []string{"1 or more"}},
		{[]string{"reset", "quakes", "alarms"}, 2, []string{"add --confirm"}},
	} {
		r := s.run(test.args...)
		if r.code != test.code || r.stdout != "" {
			t.Errorf("%.100q: exit %d, want %d; stdout %q, stderr %s", test.args, r.code, test.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, append(test.want, "rheo: ")...)
		if strings.Contains(r.stderr, "s3cret") || strings.Contains(r.stderr, "rheo: rheo:") {
			t.Errorf("%q: %s", test.args, r.stderr)
		}
	}
}

// lines812 is a feed whose line 812 is bad.
func lines812(bad string) string {
	var b strings.Builder
	for n := 1; n <= 1000; n++ {
		if n == 812 {
			b.WriteString(bad + "\n")
		} else {
			fmt.Fprintf(&b, `{"id":"e%d","k":"k%d"}`+"\n", n, n%7)
		}
	}
	return b.String()
}

func TestBadLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ bad, want string }{
		"invalid":   {`{"id":"e812"`, "invalid JSON at byte 12: unexpected end of JSON input"},
		"no id":     {`{"k":"x"}`, "nothing at --id id"},
		"long id":   {`{"id":"` + strings.Repeat("x", 256) + `"}`, "id has 256 bytes, must have 1 to 255"},
		"too large": {`{"id":"x","p":"` + strings.Repeat("x", rheo.MaxPayloadDefault) + `"}`, "the limit is 1048576"},
		"endless":   {strings.Repeat("x", maxLine+1), "the line has more than"},
		"utf-8":     {"{\"id\":\"a\xff\"}", "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.ok("stream", "create", "n", "--partitions", "4")
			file := writeFile(t, "feed.ndjson", lines812(test.bad))
			r := s.run("append", "n", file, "--id", "id", "--key", "k")
			if r.code != exitFailed || r.stdout != "" {
				t.Errorf("exit %d: %s", r.code, r.stdout)
			}
			contains(t, r.stderr, file+":812: ", test.want, "nothing was appended")
			if left := s.ok("read", "n", "--json"); left != "" {
				t.Errorf("in the stream: %.300s", left)
			}
		})
	}
}

// TestBadLineInPipe: what stands before the bad line is in the stream, and the
// message says so; the mended input adds the rest.
func TestBadLineInPipe(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok("stream", "create", "n", "--partitions", "4")
	s.stdin = lines812("{")
	r := s.run("append", "n", "--id", "id")
	if r.code != exitFailed {
		t.Errorf("exit %d", r.code)
	}
	contains(t, r.stderr, "<stdin>:812: invalid JSON", "the 811 events of lines 1 to 811 are in the stream", "harmless")
	if got := len(events(t, s.ok("read", "n", "--json"))); got != 811 {
		t.Errorf("%d events", got)
	}
	s.stdin = lines812(`{"id":"e812"}`)
	contains(t, s.ok("append", "n", "--id", "id"), "appended 189 events to stream n; 811 there already")

	s.stdin = "1\n2\n{"
	contains(t, s.run("append", "n").stderr, "go on with line 3", "without --id")
}

func TestStreamInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok("stream", "create", "n")
	var stderr bytes.Buffer
	broken := io.MultiReader(strings.NewReader("1\n2\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if code := Run(t.Context(), s.args([]string{"append", "n"}), broken, io.Discard, &stderr); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	contains(t, stderr.String(), "<stdin>:3: unexpected EOF", "lines 1 to 2 are in the stream")
}

// TestInUse: a directory that another process has open.
func TestInUse(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.one(t)
	holder := s.start("consume", "n", "g")
	holder.line() // it has opened the store
	for _, args := range [][]string{{"stream", "list"}, {"append", "n", "-"}, {"lag", "n", "g"}} {
		r := s.run(args...)
		if r.code != exitFailed {
			t.Errorf("%v: exit %d", args, r.code)
		}
		contains(t, r.stderr, strings.TrimPrefix(s.store, "embedded:"), "in use by process", fmt.Sprint(holder.Process.Pid))
	}
	if err := holder.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, code := holder.rest(); code != exitDone {
		t.Errorf("holder: exit %d\n%s", code, &holder.stderr)
	}
	s.ok("stream", "list")
}

// fullDisk is a store that has room for a few appends.
type fullDisk struct {
	rheo.Backend
	room atomic.Int64
}

func (f *fullDisk) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	if f.room.Add(-1) < 0 {
		return nil, rheo.WrapError(rheo.ErrFailed, syscall.ENOSPC, "writing the store")
	}
	return f.Backend.Append(ctx, r)
}

func (*fullDisk) Close() error { return nil } // the next command has it again

func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := &fullDisk{Backend: memory.New(nil)}
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs strings.Builder
		a := &app{
			stdin: strings.NewReader(""), stdout: &out, stderr: &errs, quit: os.Exit,
			openers: map[string]opener{"full": {
				open: func(context.Context, request) (rheo.Backend, error) { return disk, nil },
			}},
		}
		return a.run(t.Context(), append([]string{"--store", "full:"}, args...)), out.String(), errs.String()
	}
	file, _ := feed(t)
	run("stream", "create", "quakes", "--partitions", "4")
	disk.room.Store(8)
	code, stdout, stderr := run(appendQuakes(file)...)
	if code != exitFailed || stdout != "" {
		t.Errorf("exit %d: %s", code, stdout)
	}
	// A machine under load sends smaller batches.
	where := regexp.MustCompile(regexp.QuoteMeta(file) + `:(\d+)-\d+: failed: writing the store: no space left on device`).FindStringSubmatch(stderr)
	if where == nil {
		t.Fatal(stderr)
	}
	line, _ := strconv.Atoi(where[1])
	contains(t, stderr, fmt.Sprintf("the %d events of lines 1 to %[1]d are in the stream", line-1), "harmless")
	disk.room.Store(1707)
	want := fmt.Sprintf("appended %s events to stream quakes; %d there already\n", number(int64(1707-line+1)), line-1)
	if _, stdout, _ := run(appendQuakes(file)...); line < 8 || stdout != want {
		t.Errorf("got %s, want %s", stdout, want)
	}
}
