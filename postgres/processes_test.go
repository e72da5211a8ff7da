package postgres_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

const workerURL = "RHEO_TEST_WORKER_URL"

// TestWorkerProcess is no test: it is what the processes of the tests below do.
// It prints the ID of each event that it has acked.
func TestWorkerProcess(t *testing.T) {
	url := os.Getenv(workerURL)
	if url == "" {
		return
	}
	s := openStore(t, url, postgres.Options{}, nil)
	for {
		leases, err := s.Fetch(t.Context(), "orders", "g", rheo.FetchOptions{Max: 10, LeaseDuration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ack(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			if _, err := fmt.Fprintln(os.Stdout, "acked", l.ID); err != nil {
				t.Fatal(err)
			}
		}
		if lag, err := s.Lag(t.Context(), "orders", "g"); err != nil || lag.Lag == 0 {
			return
		}
	}
}

// worker is a process that consumes, and what it has said it acked.
type worker struct {
	cmd   *exec.Cmd
	first chan struct{} // closed when it has acked a good part
	done  chan struct{}
	acked []string
}

func startWorker(t *testing.T, url string) *worker {
	t.Helper()
	w := &worker{
		cmd:   exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkerProcess$"),
		first: make(chan struct{}), done: make(chan struct{}),
	}
	w.cmd.Env = append(os.Environ(), workerURL+"="+url)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		once := sync.OnceFunc(func() { close(w.first) })
		defer once()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "acked "); ok {
				if w.acked = append(w.acked, id); len(w.acked) == 500 {
					once()
				}
			}
		}
		_ = w.cmd.Wait() // it may have been killed
	}()
	return w
}

// Two processes share a group; one is killed in the middle, the other finishes.
func TestTwoProcessesShareAGroup(t *testing.T) {
	t.Parallel()
	s := openStore(t, testservers.Postgres(t).Database(t), postgres.Options{}, nil)
	s.create(t, "orders", 4, "g")
	const events = 6000
	for range events / 1000 {
		if _, err := s.Append(t.Context(), "orders", numbered(1000)...); err != nil {
			t.Fatal(err)
		}
	}
	killed, survivor := startWorker(t, s.url), startWorker(t, s.url)
	<-killed.first
	<-survivor.first
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.done
	<-survivor.done
	seen := make(map[string]int)
	for _, id := range append(killed.acked, survivor.acked...) {
		seen[id]++
		if seen[id] > 1 {
			t.Errorf("%s was acked twice", id)
		}
	}
	lag, err := s.Lag(t.Context(), "orders", "g")
	if err != nil || lag.Lag != 0 {
		t.Errorf("lag %d, %v", lag.Lag, err)
	}
	t.Logf("%d acked by the one that was killed, %d by the other", len(killed.acked), len(survivor.acked))
}
