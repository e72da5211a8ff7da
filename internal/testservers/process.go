package testservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// unavailable ends a test that cannot have its server: by a skip, unless servers
// are required.
func unavailable(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv("RHEO_TEST_REQUIRE") != "" {
		tb.Fatalf("RHEO_TEST_REQUIRE is set, and %v", err)
	}
	tb.Skipf("%v", err)
}

// account is who the servers run as: not root, whom PostgreSQL refuses.
type account struct {
	credential *syscall.Credential // nil: whoever runs the tests
	uid, gid   int
	name       string
}

func serverAccount() (account, error) {
	me, err := user.Current()
	if err != nil {
		return account{}, err
	}
	if os.Getuid() != 0 {
		return account{uid: os.Getuid(), gid: os.Getgid(), name: me.Username}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return account{
			credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, uid: uid, gid: gid, name: name,
		}, nil
	}
	return account{}, errors.New("there is no unprivileged user to run a server as")
}

// command returns a command that runs as the account, and is not reached by the
// terminal's interrupt.
func (a account) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: a.credential}
	return cmd
}

// keeper is the shell beside a server.
type keeper struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

var keepers struct {
	sync.Mutex
	list []*keeper
}

// keep starts the shell that cleans dir up when this process ends: it kills what
// the files named *.pid in it name, and removes it.
func keep(dir string) error {
	const script = `cat >/dev/null
for f in "$1"/*.pid "$1"/*/postmaster.pid; do [ -f "$f" ] && kill -QUIT "$(head -n 1 "$f")" 2>/dev/null; done
for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null; [ -e "$1" ] || exit 0; sleep 0.1; done`
	cmd := exec.Command("sh", "-c", script, "sh", dir) //nolint:noctx // it outlives every context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	keepers.Lock()
	defer keepers.Unlock()
	keepers.list = append(keepers.list, &keeper{pipe: pipe, cmd: cmd})
	return nil
}

// Shutdown ends every server that this process started, and removes what they
// have stored.
func Shutdown() {
	keepers.Lock()
	defer keepers.Unlock()
	for _, k := range keepers.list {
		_ = k.pipe.Close()
	}
	for _, k := range keepers.list {
		_ = k.cmd.Wait()
	}
	keepers.list = nil
	servers.Wait()
}

// servers are the goroutines that wait for a server to end.
var servers sync.WaitGroup

// Main returns m with a [Shutdown] after its tests.
func Main(m *testing.M) Tests { return Tests{m} }

// Tests are what a TestMain runs.
type Tests struct{ m *testing.M }

// Run runs the tests, and ends the servers that they started.
func (t Tests) Run() int {
	defer Shutdown()
	return t.m.Run()
}

// temporary makes a directory that the account owns.
func (a account) temporary(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server's socket is in it
		return "", err
	}
	return dir, os.Chown(dir, a.uid, a.gid)
}

// freePort returns a TCP port that nothing uses now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is done at once
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// await polls until check returns nil, and returns its last error if that takes
// too long.
func await(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", limit, err)
		}
	}
}

// program finds a server's program on the PATH or where Debian puts it.
func program(name string, places ...string) (string, error) {
	if found, err := exec.LookPath(name); err == nil {
		if target, err := filepath.EvalSymlinks(found); err == nil {
			return target, nil
		}
	}
	for _, place := range places {
		matches, _ := filepath.Glob(filepath.Join(place, name)) // a bad pattern would be ours
		if len(matches) > 0 {
			return matches[len(matches)-1], nil
		}
	}
	debian := name
	if name == "postgres" {
		debian = "postgresql"
	}
	return "", fmt.Errorf("%s is not installed (Debian: apt-get install %s)", name, debian)
}
