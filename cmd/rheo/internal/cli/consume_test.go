//go:build unix

package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rheo-go/rheo"
)

// TestKilledConsumer kills -9 a consumer half-way and starts it again: nothing is
// lost.
func TestKilledConsumer(t *testing.T) {
	t.Parallel()
	onEach(t, checkKilledConsumer)
}

func checkKilledConsumer(s *shellOf) {
	t := s.t
	s.appendFeed("alarms")
	killed := s.start("consume", "quakes", "alarms", "--lease", "1s")
	var printed []string
	for range 800 {
		printed = append(printed, killed.line())
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, code := killed.rest()
	if code != -1 {
		t.Fatalf("it ended by itself, with %d", code)
	}
	if n := len(rest); n > 0 && !json.Valid([]byte(rest[n-1])) { // cut off by the kill
		rest = rest[:n-1]
	}
	seen := ids(events(t, strings.Join(append(printed, rest...), "\n")))

	var lag rheo.Lag
	s.json(&lag, "lag", "quakes", "alarms")
	if lag.Lag < 100 || lag.Lag > 1707-600 {
		t.Errorf("lag %d after the kill at %d", lag.Lag, len(seen))
	}
	again := ids(events(t, s.ok("consume", "quakes", "alarms", "--until-empty", "--lease", "1s", "--poll", "50ms")))
	if int64(len(again)) < lag.Lag {
		t.Errorf("%d came after the restart, of %d not acked", len(again), lag.Lag)
	}
	for id := range again {
		seen[id] = true
	}
	if len(seen) != 1707 {
		t.Errorf("the two saw %d IDs, want 1707", len(seen))
	}
	s.json(&lag, "lag", "quakes", "alarms")
	if lag.Lag != 0 {
		t.Errorf("lag %d, want 0", lag.Lag)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	onEach(t, checkCount)
}

func checkCount(s *shellOf) {
	t := s.t
	s.appendFeed("g")
	seen := make(map[string]bool)
	for _, args := range [][]string{{"--count", "7"}, {"--count", "250", "--concurrency", "8"}, {"--count", "1", "--max-demand", "500"}} {
		found := events(t, s.ok(append([]string{"consume", "quakes", "g"}, args...)...))
		if want, _ := strconv.Atoi(args[1]); len(found) != want {
			t.Errorf("%v printed %d", args, len(found))
		}
		for _, e := range found {
			if seen[e.ID] {
				t.Errorf("%s came twice", e.ID)
			}
			seen[e.ID] = true
		}
	}
	var info groupView
	s.json(&info, "group", "info", "quakes", "g")
	if info.InFlight != 0 || info.Lag < int64(1707-len(seen)) {
		t.Errorf("after %d: %+v", len(seen), info)
	}
}

func TestConsumePartitions(t *testing.T) {
	t.Parallel()
	onEach(t, checkConsumePartitions)
}

func checkConsumePartitions(s *shellOf) {
	t := s.t
	s.appendFeed("g")
	for _, e := range events(t, s.ok("consume", "quakes", "g", "--partitions", "1,2", "--until-empty")) {
		if e.Partition != 1 && e.Partition != 2 {
			t.Errorf("%+v", e)
		}
	}
	var info groupView
	s.json(&info, "group", "info", "quakes", "g")
	for _, p := range info.Partitions {
		if read := p.Partition == 1 || p.Partition == 2; read != (p.Lag == 0) {
			t.Errorf("%+v", p)
		}
	}
}

// TestExec holds the contract with commands: exit codes, standard streams,
// environment.
func TestExec(t *testing.T) {
	t.Parallel()
	onEach(t, checkExec)
}

func checkExec(s *shellOf) {
	t := s.t
	s.ok("stream", "create", "jobs", "--partitions", "1")
	s.ok("group", "create", "jobs", "g", "--max-attempts", "2")
	s.stdin = `{"id":"good","t":"x"}` + "\n" + `{"id":"refused","t":"x"}` + "\n" + `{"id":"flaky","t":"x"}` + "\n" + `{"id":"doomed","t":"x"}` + "\n"
	s.ok("append", "jobs", "--id", "id", "--key", "id", "--type", "t")
	const script = `read -r payload; echo "out $RHEO_ID $RHEO_ATTEMPT $payload"; echo "err of $RHEO_ID" >&2
		case $RHEO_ID in good) exit 0;; refused) exit 65;; flaky) [ "$RHEO_ATTEMPT" = 2 ];; *) exit 3;; esac`
	r := s.run("consume", "jobs", "g", "--until-empty", "--exec", script, "--concurrency", "2", "--retry", "10ms")
	if r.code != exitDone {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	contains(t, r.stdout, "out good 1 {", "out flaky 2", "out doomed 2")
	_, payload, _ := strings.Cut(r.stdout, "out good 1 ")
	var good map[string]any // a store may order the keys anew
	if err := json.NewDecoder(strings.NewReader(payload)).Decode(&good); err != nil || len(good) != 2 || good["id"] != "good" || good["t"] != "x" {
		t.Errorf("standard input was %.100s", payload)
	}
	contains(t, r.stderr, "err of good\n", "handled 6 events: 2 acked, 3 nacked, 1 rejected; 2 had been handed out before")
	if strings.Contains(r.stdout, "flaky 3") || strings.Contains(r.stdout, "refused 2") {
		t.Errorf("too many attempts:\n%s", r.stdout)
	}
	var letters []rheo.DeadLetter
	s.json(&letters, "dead-letters", "list", "jobs", "g")
	reasons := make(map[string]string)
	for _, l := range letters {
		reasons[l.EventID] = strconv.Itoa(l.Attempts) + " " + l.Reason
	}
	if len(letters) != 2 || reasons["refused"] != "1 rejected: exit status 65: err of refused" || reasons["doomed"] != "2 exit status 3: err of doomed" {
		t.Errorf("dead letters: %q", reasons)
	}
	contains(t, s.ok("dead-letters", "list", "jobs", "g"), "refused", "exit status 3")

	contains(t, s.ok("dead-letters", "redrive", "jobs", "g", "--ids", "doomed"), "1 dead letter of stream jobs")
	env := s.ok("consume", "jobs", "g", "--until-empty", "--exec", "env | grep ^RHEO_ | sort")
	contains(t, env, "RHEO_ATTEMPT=1\n", "RHEO_GROUP=g\n", "RHEO_ID=doomed\n", "RHEO_KEY=doomed\n", "RHEO_METADATA={}\n", "RHEO_PARTITION=0\n",
		"RHEO_SEQUENCE=4\n", "RHEO_STREAM=jobs\n", "RHEO_TIMESTAMP=20", "RHEO_TYPE=x\n")
	if r := s.run("dead-letters", "redrive", "jobs", "g", "--ids", "refused,nobody"); r.code != exitFailed {
		t.Errorf("%+v", r)
	} else {
		contains(t, r.stderr, `"nobody"`, "1 other will be handed out again")
	}
}

// TestExecLeavesNothing: what a command starts in the background ends with it.
func TestExecLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.one(t)
	out := s.ok("consume", "n", "g", "--count", "1", "--exec", "sleep 600 & echo $!")
	eventually(t, "the command's own child has ended", func() bool { return gone(strings.TrimSpace(out)) })
}

func gone(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return false
	}
	// One that nobody has waited for yet is as good as gone.
	status, err := os.ReadFile("/proc/" + pid + "/stat")
	return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || err == nil && strings.Contains(string(status), ") Z ")
}

// TestInterrupt: the first signal lets the command finish, and it is acked.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		s := newShell(t)
		s.one(t)
		done := filepath.Join(t.TempDir(), "done")
		p := s.start("consume", "n", "g", "--exec", "echo begun; until [ -e "+done+" ]; do sleep 0.02; done; echo finished")
		if got := p.line(); got != "begun" {
			t.Fatal(got)
		}
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		rest, code := p.rest()
		if code != exitDone || len(rest) != 1 || rest[0] != "finished" {
			t.Errorf("%v: exit %d, output %q\n%s", sig, code, rest, &p.stderr)
		}
		contains(t, p.stderr.String(), "1 acked")
		var lag rheo.Lag
		s.json(&lag, "lag", "n", "g")
		if lag.Lag != 0 {
			t.Errorf("%v: %+v", sig, lag)
		}
	}
}

// TestInterruptedBeforeDone: with an aim, a consumer that is stopped has failed.
func TestInterruptedBeforeDone(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.one(t)
	p := s.start("consume", "n", "g", "--count", "2")
	p.line()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, code := p.rest(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	contains(t, p.stderr.String(), "interrupted before it was done")
}

// TestClosedOutput: what cannot be printed is not acked.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.appendFeed("g")
	var stderr strings.Builder
	code := Run(t.Context(), s.args([]string{"consume", "quakes", "g"}), nil, &closedAfter{10}, &stderr)
	if code != exitFailed {
		t.Errorf("exit %d", code)
	}
	contains(t, stderr.String(), "cannot write the output: broken pipe", "handled 10 events")
	var info groupView
	s.json(&info, "group", "info", "quakes", "g")
	if info.InFlight != 0 {
		t.Errorf("%+v", info)
	}
	if left := events(t, s.ok("consume", "quakes", "g", "--until-empty")); len(left) != 1697 {
		t.Errorf("%d are left, want 1697", len(left))
	}
}

// closedAfter is a pipe that its reader closes after some writes.
type closedAfter struct{ writes int }

func (c *closedAfter) Write(p []byte) (int, error) {
	c.writes--
	if c.writes < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}
