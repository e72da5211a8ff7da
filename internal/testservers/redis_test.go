package testservers_test

import (
	"testing"

	"github.com/rheo-go/rheo/internal/testservers"
)

func TestRedisSurvivesKill(t *testing.T) {
	r := testservers.OwnRedis(t, "appendfsync", "always")
	run := func(want string, command ...string) {
		t.Helper()
		if out, err := r.Run(t.Context(), command...); err != nil || out != want {
			t.Fatalf("%v: %q, %v; want %q", command, out, err, want)
		}
	}
	run("OK", "SET", "kept", "7")
	r.Kill(t)
	r.Restart(t)
	run("7", "GET", "kept")
	r.Kill(t)
	r.Empty(t)
	r.Restart(t)
	run("", "GET", "kept")
}

func TestRedisCluster(t *testing.T) {
	c := testservers.OwnRedisCluster(t, 1)
	if len(c.Masters) != 3 || len(c.Replicas) != 1 || len(c.Addresses()) != 3 {
		t.Fatalf("%d masters, %d replicas at %v", len(c.Masters), len(c.Replicas), c.Addresses())
	}
	if out, err := c.Replicas[0].Run(t.Context(), "ROLE"); err != nil || out[:5] != "slave" {
		t.Errorf("the replica's role: %q, %v", out, err)
	}
}
