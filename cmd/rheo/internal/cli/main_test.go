package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/cmd/rheo/demo"
)

// asCommand makes a copy of the test's process be the command: the tests' own
// children, and those that the command starts of itself.
const asCommand = "RHEO_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	isTest := len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.") // or one of its fuzz workers
	if os.Getenv(asCommand) != "" && !isTest {
		os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if err := errors.Join(os.Unsetenv("RHEO_STORE"), os.Setenv(asCommand, "1")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withServers(m))
}

// withServers returns m with the end of the servers that tests start, where there
// are any.
var withServers = func(m *testing.M) goleak.TestingM { return m }

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// shellOf runs commands on one store.
type shellOf struct {
	t     *testing.T
	store string
	stdin string
}

func newShell(t *testing.T) *shellOf {
	t.Helper()
	return &shellOf{t: t, store: kinds["embedded"](t)}
}

func newSQLite(t *testing.T) *shellOf {
	t.Helper()
	return &shellOf{t: t, store: kinds["sqlite"](t)}
}

// kinds are the durable stores, each with how to name one that is ready to be
// made: what holds for one holds for all of them.
var kinds = map[string]func(*testing.T) string{
	"embedded": func(t *testing.T) string { t.Helper(); return "embedded:" + filepath.Join(t.TempDir(), "store") },
	"sqlite":   func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "store.db") },
}

// onEach runs a test on a new store of each kind; s.t is its own.
func onEach(t *testing.T, test func(s *shellOf)) {
	t.Helper()
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(&shellOf{t: t, store: kinds[kind](t)})
		})
	}
}

func (s *shellOf) args(args []string) []string {
	return append([]string{"--store", s.store}, args...)
}

func (s *shellOf) run(args ...string) result {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(s.t.Context(), s.args(args), strings.NewReader(s.stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command that must succeed, and returns its output.
func (s *shellOf) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != exitDone {
		s.t.Fatalf("rheo %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// json runs a command with --json and decodes its output.
func (s *shellOf) json(to any, args ...string) {
	s.t.Helper()
	out := s.ok(append(args, "--json")...)
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		s.t.Fatalf("rheo %s --json: %v in %s", strings.Join(args, " "), err, out)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("rheo %s --json: more than one document: %s", strings.Join(args, " "), out)
	}
}

// start runs the command in a process of its own.
func (s *shellOf) start(args ...string) *process {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], s.args(args)...)
	p := &process{t: s.t, Cmd: cmd}
	cmd.Stderr = &p.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stdout)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return p
}

type process struct {
	*exec.Cmd
	t      *testing.T
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

// line reads a line of its output.
func (p *process) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		_ = p.Wait()
		p.t.Fatalf("the process has ended its output: %v\n%s", p.lines.Err(), &p.stderr)
	}
	return p.lines.Text()
}

// rest reads what is left and waits for the end.
func (p *process) rest() (lines []string, code int) {
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	_ = p.Wait()
	return lines, p.ProcessState.ExitCode()
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}

func contains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("lacks %q:\n%s", w, text)
		}
	}
}

// feed is the earthquake feed, as a file and as decoded lines.
func feed(t *testing.T) (file string, quakes []map[string]any) {
	t.Helper()
	ndjson, err := demo.Feed()
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(ndjson) {
		var quake map[string]any
		if err := json.Unmarshal(line, &quake); err != nil {
			t.Fatal(err)
		}
		quakes = append(quakes, quake)
	}
	return writeFile(t, "quakes.ndjson", string(ndjson)), quakes
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// appendFeed makes the stream quakes and the groups, and appends the feed.
func (s *shellOf) appendFeed(groups ...string) (quakes []map[string]any) {
	s.t.Helper()
	file, quakes := feed(s.t)
	s.ok("stream", "create", "quakes", "--partitions", "4")
	for _, group := range groups {
		s.ok("group", "create", "quakes", group)
	}
	s.ok(appendQuakes(file)...)
	return quakes
}

// one makes a stream n of one event and a group g.
func (s *shellOf) one(t *testing.T) {
	t.Helper()
	s.ok("stream", "create", "n")
	s.ok("group", "create", "n", "g")
	s.stdin = "1"
	s.ok("append", "n")
}

func appendQuakes(file string) []string {
	return []string{
		"append", "quakes", file, "--id", "id", "--key", "properties.net", "--type", "properties.type", "--time", "properties.time",
	}
}

// eventLine is an event as it is printed.
type eventLine struct {
	ID        string            `json:"id"`
	Stream    string            `json:"stream"`
	Partition int               `json:"partition"`
	Sequence  int64             `json:"sequence"`
	Timestamp time.Time         `json:"timestamp"`
	Key       string            `json:"key"`
	Type      string            `json:"type"`
	Metadata  map[string]string `json:"metadata"`
	Payload   json.RawMessage   `json:"payload"`
}

// events decodes NDJSON strictly: these fields, and metadata never null.
func events(t *testing.T, ndjson string) []eventLine {
	t.Helper()
	var found []eventLine
	for line := range strings.Lines(ndjson) {
		var e eventLine
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if e.Metadata == nil {
			t.Fatalf("metadata is null in %s", line)
		}
		found = append(found, e)
	}
	return found
}

func ids(events []eventLine) map[string]bool {
	set := make(map[string]bool)
	for _, e := range events {
		set[e.ID] = true
	}
	return set
}
