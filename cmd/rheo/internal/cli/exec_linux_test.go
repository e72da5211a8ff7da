package cli

import (
	"os"
	"syscall"
	"testing"
)

// TestSecondInterrupt: the second one ends at once, the command with it, and the
// event is not lost.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.one(t)
	p := s.start("consume", "n", "g", "--exec", "trap '' INT TERM; echo $$; sleep 600; sleep 600")
	pid := p.line()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} { // two of one kind might become one
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if _, code := p.rest(); code != exitFailed {
		t.Errorf("exit %d\n%s", code, &p.stderr)
	}
	eventually(t, "the command has ended", func() bool { return gone(pid) })
	if found := events(t, s.ok("consume", "n", "g", "--count", "1")); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}

// TestKilledWithCommand: a consumer that is killed takes its command with it.
func TestKilledWithCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.one(t)
	p := s.start("consume", "n", "g", "--exec", "echo $$; while :; do sleep 0.05; done")
	pid := p.line()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	eventually(t, "the command has ended", func() bool { return gone(pid) })
}
