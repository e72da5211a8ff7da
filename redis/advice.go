package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Advise looks at how the server, or each master of a cluster, is run, and says in
// sentences what does not fit a durable log: persistence that is off or weak, keys that
// may be evicted, a replica in a master's place. There is no advice where all is well.
// It reads INFO and, if the ACL lets it, CONFIG GET.
func (b *Backend) Advise(ctx context.Context) ([]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	return ask(ctx, b, func() ([]string, error) {
		cluster, ok := b.client.(*redis.ClusterClient)
		if !ok {
			return advise(ctx, b.client.(*redis.Client), "")
		}
		var mu sync.Mutex
		var all []string
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			some, err := advise(ctx, c, c.Options().Addr+": ")
			mu.Lock()
			defer mu.Unlock()
			all = append(all, some...)
			return err
		})
		return all, err
	})
}

func advise(ctx context.Context, c *redis.Client, where string) (advice []string, err error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	info := parseInfo(text)
	say := func(format string, args ...any) { advice = append(advice, where+fmt.Sprintf(format, args...)) }
	if info["role"] != "master" {
		say("this server is a replica, to which nothing can be appended")
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		say("maxmemory-policy is %s: Redis may throw events away when memory runs short; set noeviction", policy)
	}
	persistence, err := advisePersistence(ctx, c, info["aof_enabled"] == "1")
	if persistence != "" {
		say("%s", persistence)
	}
	return advice, err
}

func advisePersistence(ctx context.Context, c *redis.Client, appendOnly bool) (string, error) {
	settings, err := c.ConfigGet(ctx, "appendfsync").Result()
	snapshots, errSave := c.ConfigGet(ctx, "save").Result()
	if err = errors.Join(err, errSave); err != nil {
		if code(err) == "" {
			return "", err
		}
		if !appendOnly {
			return "the append-only file is off: a crash loses events; set appendonly yes", nil
		}
		return "CONFIG GET is not allowed here: make sure that appendfsync is always or everysec", nil
	}
	switch {
	case !appendOnly && snapshots["save"] == "":
		return "nothing is written to disk: a restart loses every event; set appendonly yes", nil
	case !appendOnly:
		return "only snapshots are written to disk: a crash loses what was appended since the last; set appendonly yes", nil
	case settings["appendfsync"] == "no":
		return "appendfsync is no: a crash of the machine loses what the kernel had not written yet; set everysec or always", nil
	}
	return "", nil
}

// parseInfo reads INFO's lines, name:value.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
