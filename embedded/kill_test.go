package embedded_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
)

// TestKill kills a process under load, many times at random moments, and checks
// after each death that what was confirmed is there, once and whole, and that what
// was counted is not counted again. See kill_load_test.go for the load.
func TestKill(t *testing.T) {
	t.Parallel()
	stores, kills := 2, 110
	if testing.Short() {
		stores, kills = 1, 15
	}
	for i := range stores {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			seed := time.Now().UnixNano() + int64(i)
			t.Logf("seed %d", seed)
			k := &killing{
				T: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(uint64(seed), 0)), model: newKillModel(),
			}
			k.create()
			for n := range kills {
				k.round(n)
				if n%4 == 3 {
					k.verify(false)
				}
			}
			k.verify(true)
			t.Logf("%d kills, %d of them by poison: %d events, %d leases and %d settlements confirmed",
				kills, k.suicides, len(k.model.log), k.model.leases, k.model.settled)
		})
	}
}

type killing struct {
	*testing.T
	dir      string
	random   *rand.Rand
	model    *killModel
	suicides int
}

func (k *killing) open() *rheo.Instance {
	k.Helper()
	b, err := embedded.Open(k.dir, nil)
	if err != nil {
		k.Fatal(err)
	}
	in, err := rheo.New(b, nil)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = in.Close() })
	return in
}

func (k *killing) create() {
	k.Helper()
	in := k.open()
	defer in.Close()
	partitions := []int{0, 1, 2}
	err := in.CreateStream(k.Context(), "s", rheo.StreamConfig{Partitions: allPartitions})
	for name, ordering := range map[string]rheo.Ordering{"a": rheo.OrderingNone, "o": rheo.OrderingPartition, "r": rheo.OrderingNone} {
		if err == nil {
			err = in.CreateGroup(k.Context(), "s", name, rheo.GroupConfig{MaxAttempts: killAttempts, Partitions: partitions, Ordering: ordering})
		}
	}
	if err != nil {
		k.Fatal(err)
	}
}

// round lets a load run for a moment.
func (k *killing) round(n int) {
	k.Helper()
	cmd := exec.CommandContext(k.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=load", "RHEO_EMBEDDED_DIR="+k.dir, fmt.Sprintf("RHEO_EMBEDDED_SEED=%d", k.random.Uint32()))
	for w, last := range k.model.writers {
		cmd.Env = append(cmd.Env, fmt.Sprintf("RHEO_EMBEDDED_WRITER%d=%d %d", w, last.n, last.count))
	}
	if n%12 == 1 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("RHEO_EMBEDDED_POISON=poison-%d", n))
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in, _ := cmd.StdinPipe() // ends with this process
	defer in.Close()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- k.listen(out, ready) }()
	k.wait(ready, ended)
	_ = cmd.Process.Kill()
	err := <-ended
	if code := k.exitCode(cmd); code >= 0 || complaints.Len() > 0 {
		k.Fatalf("round %d: the load ended by itself, with code %d: %s", n, code, complaints.String())
	}
	if err != nil {
		k.Fatalf("round %d: %v", n, err)
	}
}

// wait waits for the moment to kill: as a rule some time after the load has begun,
// sometimes while the store is being opened, and no longer than the load lives.
func (k *killing) wait(ready <-chan struct{}, ended chan error) {
	const early, short, long = 40 * time.Millisecond, 5 * time.Millisecond, 145 * time.Millisecond
	moment := time.After(time.Duration(k.random.Int64N(int64(early))))
	if k.random.IntN(8) > 0 {
		select {
		case <-ready:
		case err := <-ended:
			ended <- err
			return
		}
		moment = time.After(short + time.Duration(k.random.Int64N(int64(long))))
	}
	select {
	case <-moment:
	case err := <-ended:
		k.suicides++
		ended <- err
	}
}

// listen takes every report that was finished, up to the load's death.
func (k *killing) listen(out io.Reader, ready chan<- struct{}) error {
	var wrong error
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return wrong
		}
		if line == "ready\n" {
			close(ready)
		}
		if err := k.model.take(strings.TrimSpace(line)); err != nil && wrong == nil {
			wrong = err
		}
	}
}

// exitCode is -1 if the process was killed.
func (k *killing) exitCode(cmd *exec.Cmd) int {
	_ = cmd.Wait() // it was killed: that is an error
	return cmd.ProcessState.ExitCode()
}

func (k *killing) verify(last bool) {
	k.Helper()
	in := k.open()
	defer in.Close()
	k.model.verify(k.T, in)
	if last {
		for _, name := range []string{"a", "o", "r"} {
			k.model.drain(k.T, in, name)
		}
	}
}
