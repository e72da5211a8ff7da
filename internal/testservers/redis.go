package testservers

import (
	"bufio"
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
	"syscall"
	"testing"
	"time"
)

// RedisServer is a Redis server with its data.
type RedisServer struct {
	mu       sync.Mutex
	account  account
	program  string
	dir      string // of the data and the log
	port     int
	settings []string
	server   *exec.Cmd // nil while it is down
	exited   chan struct{}

	given *url.URL // RHEO_TEST_REDIS_URL: not ours to stop
}

var sharedRedis struct {
	sync.Mutex
	server *RedisServer
	err    error
}

// Redis returns the server of this process, started for the first test that asks:
// that of RHEO_TEST_REDIS_URL, if it is set, or one of our own, which is as durable as
// Redis' documentation advises: an append-only file, flushed every second.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	sharedRedis.Lock()
	defer sharedRedis.Unlock()
	if sharedRedis.server == nil && sharedRedis.err == nil {
		sharedRedis.server, sharedRedis.err = openRedis(tb.Context())
	}
	if sharedRedis.err != nil {
		unavailable(tb, fmt.Errorf("there is no Redis: %w", sharedRedis.err))
	}
	return sharedRedis.server
}

// OwnRedis returns a server that the test has for itself and may kill. The settings,
// name and value in turn, are those of redis.conf.
func OwnRedis(tb testing.TB, settings ...string) *RedisServer {
	tb.Helper()
	r, err := newRedis(tb.Context(), settings...)
	if err != nil {
		unavailable(tb, fmt.Errorf("there is no Redis: %w", err))
	}
	tb.Cleanup(func() { r.Kill(tb) })
	return r
}

func openRedis(ctx context.Context) (*RedisServer, error) {
	given := os.Getenv("RHEO_TEST_REDIS_URL")
	if given == "" {
		return newRedis(ctx)
	}
	u, err := url.Parse(given)
	if err != nil {
		return nil, errors.New("RHEO_TEST_REDIS_URL is not a URL")
	}
	return &RedisServer{given: u}, nil
}

func newRedis(ctx context.Context, settings ...string) (*RedisServer, error) {
	redis, err := exec.LookPath("redis-server") // not what a link leads to: the program goes by its name
	if err != nil {
		return nil, fmt.Errorf("redis-server is not installed (Debian: apt-get install redis-server): %w", err)
	}
	r := &RedisServer{program: redis, settings: settings}
	if r.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if r.port, err = freePort(); err != nil {
		return nil, err
	}
	if r.dir, err = r.account.temporary("rheo-redis-"); err != nil {
		return nil, err
	}
	if err := keep(r.dir); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *RedisServer) start(ctx context.Context) error {
	settings := append([]string{
		"port", strconv.Itoa(r.port), "bind", "127.0.0.1", "dir", r.dir, "pidfile", filepath.Join(r.dir, "redis.pid"),
		"logfile", filepath.Join(r.dir, "log"), "save", "", "appendonly", "yes", "appendfsync", "everysec",
	}, r.settings...)
	args := make([]string, len(settings))
	for i, s := range settings {
		if args[i] = s; i%2 == 0 {
			args[i] = "--" + s
		}
	}
	server := r.account.command(context.WithoutCancel(ctx), r.dir, r.program, args...)
	if err := server.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	servers.Go(func() {
		_ = server.Wait()
		close(exited)
	})
	r.server, r.exited = server, exited
	const patience = time.Minute
	err := await(ctx, patience, func() error {
		select {
		case <-exited:
			return errors.New("the server has ended")
		default:
			return r.answers(ctx)
		}
	})
	if err != nil {
		tail, _ := os.ReadFile(filepath.Join(r.dir, "log")) //nolint:gosec // our own
		return fmt.Errorf("Redis did not start: %w\n%s", err, tail)
	}
	return nil
}

// answers reports whether the server is up and has read its data.
func (r *RedisServer) answers(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", r.Address())
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written that matters
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.HasPrefix(line, "-LOADING") {
		err = errors.New("it is loading")
	}
	return err
}

// Address is the server's, host and port.
func (r *RedisServer) Address() string {
	if r.given != nil {
		return r.given.Host
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port))
}

// URL is the server's.
func (r *RedisServer) URL() string {
	if r.given != nil {
		return r.given.String()
	}
	return "redis://" + r.Address()
}

// Own reports whether the server is one that this process has started.
func (r *RedisServer) Own() bool { return r.given == nil }

// Kill ends the server as a crash would, by SIGKILL.
func (r *RedisServer) Kill(tb testing.TB) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given != nil {
		tb.Skip("RHEO_TEST_REDIS_URL is set, and that server is not ours to kill")
	}
	if r.server == nil {
		return
	}
	_ = syscall.Kill(r.server.Process.Pid, syscall.SIGKILL)
	<-r.exited
	r.server = nil
}

// Restart starts the server again after a Kill, on the same port and data.
func (r *RedisServer) Restart(tb testing.TB) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		return
	}
	if err := r.start(context.WithoutCancel(tb.Context())); err != nil {
		tb.Fatal(err)
	}
}

// Empty takes away what the server had written, while it is down.
func (r *RedisServer) Empty(tb testing.TB) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.given != nil || r.server != nil {
		tb.Fatal("the server is not ours, or it is up")
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "appendonlydir")); err != nil {
		tb.Fatal(err)
	}
}
