package mongotest_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// urlVariable names the server to test against instead of FerretDB.
const urlVariable = "RHEO_TEST_MONGO_URL"

// server is one that the tests of the process share.
type server struct {
	once             sync.Once
	network, address string
	gate             sync.Mutex // held while a command is under way
	err              error
}

// servers are as many as keep a small machine busy, since each does one thing at a
// time. A test has all that is its own on one of them.
var (
	servers [2]server
	turn    atomic.Int64
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(stopping{m})
}

// stopping runs the tests and then what is left to do, before goroutines are
// counted.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	code := s.m.Run()
	for _, f := range ending.todo {
		f()
	}
	return code
}

var ending struct {
	mu   sync.Mutex
	todo []func()
}

// atEnd has something done after the last test.
func atEnd(f func()) {
	ending.mu.Lock()
	defer ending.mu.Unlock()
	ending.todo = append(ending.todo, f)
}

// realURL is that of a server to test against, or "".
func realURL() string { return os.Getenv(urlVariable) }

// upstream is a server that a proxy may stand before.
func upstream(tb testing.TB) *server {
	tb.Helper()
	if named := realURL(); named != "" {
		u, err := url.Parse(named)
		if err != nil {
			tb.Fatal(err)
		}
		if u.Scheme != "mongodb" || strings.Contains(u.Host, ",") || u.Query().Get("tls") == "true" || u.Query().Get("ssl") == "true" {
			tb.Skip("a proxy cannot stand before this server")
		}
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "27017")
		}
		return &server{network: "tcp", address: host}
	}
	s := &servers[turn.Add(1)%int64(len(servers))]
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s
}

// start starts a FerretDB in a directory of its own.
func (s *server) start() error {
	program, err := buildFerret()
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "rheo-ferretdb")
	if err != nil {
		return err
	}
	command := exec.Command(program, directory)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	atEnd(func() {
		_ = input.Close() // it ends
		_ = command.Wait()
		_ = os.RemoveAll(directory)
	})
	s.network, s.address = "unix", filepath.Join(directory, "ferretdb.sock")
	return listening(s.network, s.address)
}

var buildFerret = sync.OnceValues(func() (string, error) { return build("off", ".", "./cmd/ferretdb") })

// build builds a program, apart from how the tests are built.
func build(work, directory, pkg string) (program string, err error) {
	output, err := os.MkdirTemp("", "rheo-build")
	if err != nil {
		return "", err
	}
	atEnd(func() { _ = os.RemoveAll(output) })
	program = filepath.Join(output, filepath.Base(pkg))
	command := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg)
	command.Dir, command.Env = directory, append(os.Environ(), "GOWORK="+work)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// listening waits until somebody answers there.
func listening(network, address string) error {
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		conn, err := net.Dial(network, address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("the server does not listen"), err)
		}
	}
	return nil
}
