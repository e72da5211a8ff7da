//go:build !race

// The case reads what it has published while it still writes it: under the race
// detector it fails by itself.

package watermilltest_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/rheowatermill"
)

// restartable is a server of the test's own.
type restartable interface {
	Kill(tb testing.TB)
	Restart(tb testing.TB)
}

// TestReconnectPostgres is Watermill's reconnect case: while messages are
// published and consumed the server is killed, and started again, twice.
func TestReconnectPostgres(t *testing.T) {
	t.Parallel()
	reconnect(t, func(t *testing.T) (restartable, func(*testing.T) rheo.Backend) {
		t.Helper()
		cluster := testservers.OwnPostgres(t)
		return cluster, onPostgres(t, cluster)
	})
}

// TestReconnectRedis is the same with a server that has on disk what it confirms.
func TestReconnectRedis(t *testing.T) {
	t.Parallel()
	reconnect(t, func(t *testing.T) (restartable, func(*testing.T) rheo.Backend) {
		t.Helper()
		server := testservers.OwnRedis(t, "appendfsync", "always")
		return server, onRedis(t, server)
	})
}

func reconnect(t *testing.T, start func(*testing.T) (restartable, func(*testing.T) rheo.Backend)) {
	t.Helper()
	for name, s := range map[string]setting{"unordered": unordered, "ordered": ordered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, open := start(t)
			features := tests.Features{Persistent: true, RestartServiceCommand: restartCommand(t, server)}
			tests.TestReconnect(t, tests.TestContext{TestID: tests.NewTestID(), Features: features},
				func(t *testing.T) (message.Publisher, message.Subscriber) {
					t.Helper()
					publisher, subscriber := newPubSub(t, open(t), s, "subscribers")
					last := &untilNoted{Subscriber: subscriber.(*rheowatermill.Subscriber), t: t}
					return counting{publisher, &last.published}, last
				})
		})
	}
}

// restartCommand returns a command that has this process kill and restart the
// server: the suite wants a command.
func restartCommand(t *testing.T, server restartable) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restart")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Open for writing too, so that reading waits for the next writer.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for order := make([]byte, 1); ; {
			if _, err := pipe.Read(order); err != nil {
				return
			}
			server.Kill(t)
			server.Restart(t)
		}
	}()
	t.Cleanup(func() {
		_ = pipe.Close()
		<-ended
	})
	return []string{"sh", "-c", "printf x >" + path}
}
