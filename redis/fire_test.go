//go:build unix

package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

const (
	workerURL, workerPrefix = "RHEO_TEST_WORKER_URL", "RHEO_TEST_WORKER_PREFIX"
	// fireFor is how long the test fires, as a duration: a minute says more than the
	// few seconds that it takes by default.
	fireFor = "RHEO_TEST_FIRE"
)

// TestWorkerProcess is no test: it is what the processes of the test below do. It prints
// each delivery that it was handed, and what came of it.
func TestWorkerProcess(t *testing.T) {
	url := os.Getenv(workerURL)
	if url == "" {
		return
	}
	s := openStore(t, newClient(t, url), rheoredis.Options{Prefix: os.Getenv(workerPrefix)})
	out := bufio.NewWriter(os.Stdout)
	for {
		leases, err := s.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{Max: 10, LeaseDuration: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			fmt.Fprintln(out, "handed", l.ID, l.Attempt)
		}
		work := 5 * time.Millisecond
		if len(leases) > 0 && rand.IntN(20) == 0 {
			work = 500 * time.Millisecond
		}
		<-time.After(work)
		if len(leases) > 0 {
			s.settleSome(t, out, leases)
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if s.do(t, "exists", s.prefix+":over") == int64(0) { // more is to come
			continue
		}
		if lag, err := s.Lag(t.Context(), "orders", "g"); err == nil && lag.Lag == 0 {
			return
		}
	}
}

func (s *store) settleSome(t *testing.T, out *bufio.Writer, leases []*rheo.Lease) {
	t.Helper()
	settlements := make([]rheo.Settlement, len(leases))
	for i, l := range leases {
		outcome := rheo.OutcomeAck
		switch rand.IntN(20) {
		case 0:
			outcome = rheo.OutcomeNack
		case 1:
			outcome = rheo.OutcomeReject
		}
		settlements[i] = rheo.Settlement{Lease: l, Outcome: outcome}
	}
	results, err := s.Settle(t.Context(), settlements...)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range results {
		word := settlements[i].Outcome.String()
		if errors.Is(err, rheo.ErrStaleLease) {
			word = "stale"
		} else if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(out, word, leases[i].ID, leases[i].Attempt)
	}
}

// worker is a process that consumes, and what it said.
type worker struct {
	cmd   *exec.Cmd
	done  chan struct{}
	lines []string
}

func startWorker(t *testing.T, url, prefix string) *worker {
	t.Helper()
	w := &worker{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkerProcess$"), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerURL+"="+url, workerPrefix+"="+prefix)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines = append(w.lines, lines.Text())
		}
		_ = w.cmd.Wait() // what it said tells whether it finished
	}()
	return w
}

// Eight consumers, whose leases are short and whose handlers are sometimes slow, are
// stopped and woken at random. Nobody settles what another has taken over, and every
// event ends once.
func TestFencingUnderFire(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	s.create(t, "orders", 3, "g")
	workers := make([]*worker, 8)
	for i := range workers {
		workers[i] = startWorker(t, server.URL(), s.prefix)
	}
	events := s.fire(t, workers)
	s.do(t, "set", s.prefix+":over", "yes")
	for _, w := range workers {
		<-w.done
		if len(w.lines) == 0 || w.lines[len(w.lines)-1] != "PASS" {
			t.Errorf("a worker ended with %q", w.lines[max(0, len(w.lines)-3):])
		}
	}
	s.judge(t, workers, events)
}

// fire appends, and stops and wakes the workers, for as long as the test is to take; it
// returns the number of events.
func (s *store) fire(t *testing.T, workers []*worker) int {
	t.Helper()
	length := 4 * time.Second
	if text := os.Getenv(fireFor); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	events := 0
	for end := time.Now().Add(length); time.Now().Before(end); {
		if _, err := s.Append(t.Context(), "orders", numbered(20)...); err != nil {
			t.Fatal(err)
		}
		events += 20
		if rand.IntN(3) > 0 {
			<-time.After(20 * time.Millisecond)
			continue
		}
		process := workers[rand.IntN(len(workers))].cmd.Process
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		<-time.After(rand.N(400 * time.Millisecond))
		if err := process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// judge goes through what the workers said of each event.
func (s *store) judge(t *testing.T, workers []*worker, events int) {
	t.Helper()
	highest, ended, by := make(map[string]int), make(map[string]int), make(map[string]string)
	counts := make(map[string]int)
	for _, w := range workers {
		for _, line := range w.lines {
			var word, id string
			var attempt int
			if n, err := fmt.Sscan(line, &word, &id, &attempt); err != nil || n != 3 {
				continue
			}
			counts[word]++
			switch word {
			case "handed":
				highest[id] = max(highest[id], attempt)
			case "ack", "reject":
				if before, twice := by[id]; twice {
					t.Errorf("%s ended twice: %s, %s", id, before, word)
				}
				by[id], ended[id] = word, attempt
			}
		}
	}
	for id, attempt := range ended {
		if highest[id] > attempt {
			t.Errorf("%s was settled on attempt %d although attempt %d was handed out", id, attempt, highest[id])
		}
	}
	dead := 0
	for d, err := range s.DeadLetters(t.Context(), "orders", "g") {
		if err != nil {
			t.Fatal(err)
		}
		dead++
		if by[d.EventID] == "ack" {
			t.Errorf("%s was acked, and is a dead letter", d.EventID)
		}
		by[d.EventID] = "dead"
	}
	if len(by) != events {
		t.Errorf("%d of %d events have ended", len(by), events)
	}
	t.Logf("%d events: %s; %d dead letters", events, strings.TrimPrefix(fmt.Sprint(counts), "map"), dead)
}
