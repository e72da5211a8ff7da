package testservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Cluster is a PostgreSQL server with its data.
type Cluster struct {
	mu      sync.Mutex
	account account
	bin     string // where its programs are
	dir     string // of the data, the socket and the log
	port    int
	server  *exec.Cmd // nil while it is down
	exited  chan struct{}

	given     *url.URL // RHEO_TEST_POSTGRES_URL: not ours to stop
	databases atomic.Int64
}

var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Postgres returns the cluster of this process, started for the first test that
// asks: that of RHEO_TEST_POSTGRES_URL, if it is set, or one of our own.
func Postgres(tb testing.TB) *Cluster {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = open(tb.Context())
	}
	if shared.err != nil {
		unavailable(tb, fmt.Errorf("there is no PostgreSQL: %w", shared.err))
	}
	return shared.cluster
}

// OwnPostgres returns a cluster for one test, which may kill it.
func OwnPostgres(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := create(tb.Context())
	if err != nil {
		unavailable(tb, fmt.Errorf("there is no PostgreSQL: %w", err))
	}
	tb.Cleanup(func() { c.Kill(tb) })
	return c
}

func open(ctx context.Context) (*Cluster, error) {
	given := os.Getenv("RHEO_TEST_POSTGRES_URL")
	if given == "" {
		return create(ctx)
	}
	u, err := url.Parse(given)
	if err != nil {
		return nil, errors.New("RHEO_TEST_POSTGRES_URL is not a URL")
	}
	return &Cluster{given: u}, nil
}

func create(ctx context.Context) (*Cluster, error) {
	postgres, err := program("postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/bin")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: filepath.Dir(postgres)}
	if c.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	if c.dir, err = c.account.temporary("rheo-postgres-"); err != nil {
		return nil, err
	}
	if err := keep(c.dir); err != nil {
		return nil, err
	}
	initdb := c.account.command(ctx, c.dir, filepath.Join(c.bin, "initdb"),
		"--pgdata", c.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// start runs the server with the settings of a small production machine.
func (c *Cluster) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // a log
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server has its own handle
	settings := []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + c.dir, "port=" + strconv.Itoa(c.port),
		"fsync=on", "synchronous_commit=on", "max_connections=300", "shared_buffers=256MB", "max_wal_size=2GB",
		"autovacuum_naptime=5s", "log_min_messages=fatal",
	}
	args := []string{"-D", c.data()}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	server := c.account.command(context.WithoutCancel(ctx), c.dir, filepath.Join(c.bin, "postgres"), args...)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	servers.Go(func() {
		_ = server.Wait()
		close(exited)
	})
	c.server, c.exited = server, exited
	const patience = time.Minute
	starting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	err = await(starting, patience, func() error {
		select {
		case <-exited:
			giveUp() // it will not be ready any more: whoever may start it again does so now
			return errors.New("the server has ended")
		default:
			return c.ready(ctx)
		}
	})
	if err != nil {
		tail, _ := os.ReadFile(filepath.Join(c.dir, "log")) //nolint:gosec // our own
		return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, tail)
	}
	return nil
}

func (c *Cluster) ready(ctx context.Context) error {
	out, err := c.Run(ctx, "psql", "-d", c.URL("postgres"), "-XAtqc", "SELECT 1")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Run runs one of the server's client programs, such as psql or pg_dump.
func (c *Cluster) Run(ctx context.Context, program string, args ...string) (output string, err error) {
	path := program
	if c.bin != "" {
		path = filepath.Join(c.bin, program)
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// URL names a database of the cluster.
func (c *Cluster) URL(database string) string {
	if c.given != nil {
		u := *c.given
		u.Path = "/" + database
		return u.String()
	}
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", c.Address(), database)
}

// Address is the server's, host and port.
func (c *Cluster) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

// Database creates a database for the test, and returns its URL.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), c.databases.Add(1))
	admin := c.URL("postgres")
	if out, err := c.Run(tb.Context(), "psql", "-d", admin, "-XAtqc", "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("creating a database: %v: %s", err, out)
	}
	if c.given != nil { // ours go with the cluster
		tb.Cleanup(func() {
			if out, err := c.Run(context.WithoutCancel(tb.Context()), "psql", "-d", admin, "-XAtqc", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
				tb.Errorf("dropping the database: %v: %s", err, out)
			}
		})
	}
	return c.URL(name)
}

// Kill ends the server as a crash of the machine would, but for what the kernel
// has: every process of it by SIGKILL.
func (c *Cluster) Kill(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given != nil {
		tb.Skip("RHEO_TEST_POSTGRES_URL is set, and that server is not ours to kill")
	}
	if c.server == nil {
		return
	}
	pid := c.server.Process.Pid
	halt(tb, pid)                                                                  // so that it makes no more children, which would keep a new server from starting
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // elsewhere they end by themselves, soon
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	<-c.exited
	c.server = nil
}

// halt stops a process, and waits until it stands, where the system tells.
func halt(tb testing.TB, pid int) {
	tb.Helper()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	stands := func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, found := strings.Cut(string(stat), ") "); err == nil && found && !strings.HasPrefix(state, "T") {
			return errors.New("it still runs")
		}
		return nil
	}
	_ = await(context.WithoutCancel(tb.Context()), time.Second, stands) // it is killed in either case
}

// Restart starts the server again after a Kill, on the same port and data.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return
	}
	// What the old server's processes held may take a moment to be let go.
	const patience = time.Minute
	if err := await(context.WithoutCancel(tb.Context()), patience, func() error { return c.start(context.WithoutCancel(tb.Context())) }); err != nil {
		tb.Fatal(err)
	}
}

// Stop ends the server in an orderly way.
func (c *Cluster) Stop(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given != nil || c.server == nil {
		return
	}
	if err := c.server.Process.Signal(syscall.SIGINT); err != nil {
		tb.Fatal(err)
	}
	<-c.exited
	c.server = nil
}
