package testservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisNodes is a Redis Cluster.
type RedisNodes struct {
	// Masters are the servers that began as masters, each with a third of the slots.
	Masters []*RedisServer
	// Replicas are those of the first of them, to take its place.
	Replicas []*RedisServer

	given []string // RHEO_TEST_REDIS_CLUSTER_URL: host and port of some
}

var sharedNodes struct {
	sync.Mutex
	nodes *RedisNodes
	err   error
}

// RedisCluster returns the cluster of this process, of three masters, started for the
// first test that asks; or that of RHEO_TEST_REDIS_CLUSTER_URL, host and port of some of
// its servers, separated by commas.
func RedisCluster(tb testing.TB) *RedisNodes {
	tb.Helper()
	sharedNodes.Lock()
	defer sharedNodes.Unlock()
	if given := os.Getenv("RHEO_TEST_REDIS_CLUSTER_URL"); given != "" && sharedNodes.nodes == nil {
		given = strings.TrimPrefix(given, "redis+cluster://")
		sharedNodes.nodes = &RedisNodes{given: strings.Split(given, ",")}
	}
	if sharedNodes.nodes == nil && sharedNodes.err == nil {
		sharedNodes.nodes, sharedNodes.err = newRedisCluster(tb.Context(), 0)
	}
	if sharedNodes.err != nil {
		unavailable(tb, fmt.Errorf("there is no Redis Cluster: %w", sharedNodes.err))
	}
	return sharedNodes.nodes
}

// OwnRedisCluster returns a cluster that the test has for itself, whose first master has
// that many replicas.
func OwnRedisCluster(tb testing.TB, replicas int, settings ...string) *RedisNodes {
	tb.Helper()
	c, err := newRedisCluster(tb.Context(), replicas, settings...)
	if err != nil {
		unavailable(tb, fmt.Errorf("there is no Redis Cluster: %w", err))
	}
	tb.Cleanup(func() {
		for _, r := range append(c.Masters, c.Replicas...) {
			r.Kill(tb)
		}
	})
	return c
}

// Addresses are host and port of the servers.
func (c *RedisNodes) Addresses() []string {
	if c.given != nil {
		return c.given
	}
	addresses := make([]string, len(c.Masters))
	for i, r := range c.Masters {
		addresses[i] = r.Address()
	}
	return addresses
}

const clusterMasters = 3

func newRedisCluster(ctx context.Context, replicas int, settings ...string) (*RedisNodes, error) {
	c := new(RedisNodes)
	for i := range clusterMasters + replicas {
		bus, err := freePort()
		if err != nil {
			return nil, err
		}
		r, err := newRedis(ctx, append([]string{
			"cluster-enabled", "yes", "cluster-port", strconv.Itoa(bus), "cluster-node-timeout", "1000",
			"cluster-config-file", "nodes.conf", "cluster-require-full-coverage", "no",
			"repl-diskless-sync", "yes", "repl-diskless-sync-delay", "0",
		}, settings...)...)
		if err != nil {
			return nil, err
		}
		if i < clusterMasters {
			c.Masters = append(c.Masters, r)
		} else {
			c.Replicas = append(c.Replicas, r)
		}
	}
	if err := c.form(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// form makes the servers a cluster.
func (c *RedisNodes) form(ctx context.Context) error {
	const slots = 16384
	first := c.Masters[0]
	for i, r := range c.Masters {
		from, to := i*slots/clusterMasters, (i+1)*slots/clusterMasters-1
		if err := errors.Join(
			r.ask(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)),
			r.ask(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)),
		); err != nil {
			return err
		}
	}
	for _, r := range append(c.Masters[1:], c.Replicas...) {
		if err := c.meet(ctx, r); err != nil {
			return err
		}
	}
	id, err := first.Run(ctx, "CLUSTER", "MYID")
	if err != nil {
		return err
	}
	const patience = 30 * time.Second
	for _, r := range c.Replicas {
		if err := await(ctx, patience, func() error { return r.ask(ctx, "CLUSTER", "REPLICATE", id) }); err != nil {
			return err
		}
	}
	return await(ctx, patience, func() error { return c.complete(ctx) })
}

func (c *RedisNodes) meet(ctx context.Context, r *RedisServer) error {
	first := c.Masters[0]
	bus := first.settings[3]
	host, port, err := net.SplitHostPort(first.Address())
	if err != nil {
		return err
	}
	return r.ask(ctx, "CLUSTER", "MEET", host, port, bus)
}

// complete reports whether every server knows all, and the replicas are in step.
func (c *RedisNodes) complete(ctx context.Context) error {
	for _, r := range append(append([]*RedisServer(nil), c.Masters...), c.Replicas...) {
		info, err := r.Run(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		known := fmt.Sprintf("cluster_known_nodes:%d", len(c.Masters)+len(c.Replicas))
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, known) {
			return errors.New(info)
		}
	}
	for _, r := range c.Replicas {
		info, err := r.Run(ctx, "INFO", "replication")
		if err != nil || !strings.Contains(info, "master_link_status:up") {
			return errors.Join(err, errors.New("a replica is not in step yet"))
		}
	}
	return nil
}

// Run sends a command with redis-cli, and returns the answer.
func (r *RedisServer) Run(ctx context.Context, command ...string) (string, error) {
	args := []string{"-u", r.URL(), "--raw"}
	out, err := exec.CommandContext(ctx, "redis-cli", append(args, command...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// ask is Run for a command that says OK.
func (r *RedisServer) ask(ctx context.Context, command ...string) error {
	out, err := r.Run(ctx, command...)
	if err == nil && out != "OK" {
		err = fmt.Errorf("%s: %s", strings.Join(command, " "), out)
	}
	return err
}
