package testservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// PgBouncer starts a pooler in transaction mode before the database, for one
// test, and returns the URL that leads through it.
func PgBouncer(tb testing.TB, database string) string {
	tb.Helper()
	through, err := bouncer(tb, database)
	if err != nil {
		unavailable(tb, fmt.Errorf("there is no PgBouncer: %w", err))
	}
	return through
}

func bouncer(tb testing.TB, database string) (string, error) {
	tb.Helper()
	path, err := program("pgbouncer", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	if err != nil {
		return "", err
	}
	target, err := url.Parse(database)
	if err != nil {
		return "", err
	}
	a, err := serverAccount()
	if err != nil {
		return "", err
	}
	dir, err := a.temporary("rheo-pgbouncer-")
	if err != nil {
		return "", err
	}
	if err := keep(dir); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(bouncerConfig(target, dir, port)), 0o644); err != nil { //nolint:gosec // nothing secret
		return "", err
	}
	ctx := context.WithoutCancel(tb.Context())
	cmd := a.command(ctx, dir, path, config)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	exited := make(chan struct{})
	servers.Go(func() {
		_ = cmd.Wait()
		close(exited)
	})
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-exited
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := listening(ctx, address, exited); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "pgbouncer.log")) //nolint:gosec // our own
		return "", fmt.Errorf("%w: %s", err, log)
	}
	through := *target
	through.Host = address
	return through.String(), nil
}

// listening returns when the server accepts connections.
func listening(ctx context.Context, address string, exited <-chan struct{}) error {
	const patience = 20 * time.Second
	return await(ctx, patience, func() error {
		select {
		case <-exited:
			return errors.New("it has ended")
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// bouncerConfig has few connections to the server, so that clients do change
// them from one transaction to the next.
func bouncerConfig(target *url.URL, dir string, port int) string {
	host, serverPort := target.Hostname(), target.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	return fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
pidfile = %s/pgbouncer.pid
logfile = %s/pgbouncer.log
`, host, serverPort, target.User.Username(), port, dir, dir)
}
