package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// monitor is a connection on which the server tells what it is asked.
type monitor struct {
	conn net.Conn
	in   *bufio.Reader
}

func newMonitor(t *testing.T, server *testservers.RedisServer) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", server.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	m := &monitor{conn: conn, in: bufio.NewReader(conn)}
	if line, err := m.in.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return m
}

// upTo returns the commands that clients have sent until that echo, without what scripts
// do.
func (m *monitor) upTo(t *testing.T, s *store, mark string) (commands []string) {
	t.Helper()
	s.do(t, "echo", mark)
	if err := m.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := m.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"`+mark+`"`) {
			return commands
		}
		if !strings.Contains(line, " lua] ") {
			_, command, _ := strings.Cut(line, "] ")
			commands = append(commands, strings.Fields(command)[0])
		}
	}
}

// Each operation is one command for each partition that it touches, whatever the batch.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{WithoutBlockingReads: true})
	ctx := t.Context()
	s.create(t, "one", 1, "g")
	s.create(t, "orders", 4, "g")
	m := newMonitor(t, server)
	var leases []*rheo.Lease
	fetch := func(stream string, n int) func() error {
		return func() (err error) {
			leases, err = s.Fetch(ctx, stream, "g", rheo.FetchOptions{Max: n})
			return err
		}
	}
	appends := func(stream string, n int) func() error {
		return func() error { _, err := s.Append(ctx, stream, numbered(n)...); return err }
	}
	renew := func() error { _, err := s.Renew(ctx, time.Minute, leases...); return err }
	settle := func() error {
		settlements := make([]rheo.Settlement, len(leases))
		for i, l := range leases {
			outcome := []rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeNack, rheo.OutcomeReject, rheo.OutcomeRelease}[i%4]
			settlements[i] = rheo.Settlement{Lease: l, Outcome: outcome, Delay: time.Duration(i%3) * time.Hour, Reason: "why"}
		}
		results, err := s.Settle(ctx, settlements...)
		return errors.Join(append(results, err)...)
	}
	steps := []struct {
		name string
		want int
		do   func() error
	}{
		{"append of 1", 1, appends("one", 1)},
		{"append of 1000", 1, appends("one", 1000)},
		{"append of 4000 to four", 4, appends("orders", 4000)},
		{"fetch of 1", 1, fetch("one", 1)},
		{"fetch of 500", 1, fetch("one", 500)},
		{"renewal of 500", 1, renew},
		{"settlement of 500", 1, settle},
		{"fetch of 5000", 1, fetch("one", 5000)},
		{"fetch of nothing", 1, fetch("one", 10)},
		{"fetch of one of four", 1, fetch("orders", 100)},
		{"fetch of all four", 4, fetch("orders", 10_000)},
		{"renewal in four", 4, renew},
		{"settlement in four", 4, settle},
		{"fetch of nothing in four", 4, func() error {
			for { // until what was given back at once is out again
				if err := fetch("orders", 10_000)(); err != nil || len(leases) == 0 {
					return err
				}
				m.upTo(t, s, "again")
			}
		}},
	}
	for round := range 2 { // in the first one, scripts get known
		for i, step := range steps {
			m.upTo(t, s, fmt.Sprint("begin-", round, i))
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			commands := m.upTo(t, s, fmt.Sprint("end-", round, i))
			if round > 0 && len(commands) != step.want {
				t.Errorf("%s took %d commands, want %d: %v", step.name, len(commands), step.want, commands)
			}
		}
		if err := s.ResetGroup(context.WithoutCancel(ctx), "orders", "g", rheo.ResetOptions{Confirm: true}); err != nil {
			t.Fatal(err)
		}
		if err := s.ResetGroup(ctx, "one", "g", rheo.ResetOptions{Confirm: true}); err != nil {
			t.Fatal(err)
		}
	}
}
