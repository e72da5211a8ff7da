//go:build unix

package cli

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rheo-go/rheo/internal/testservers"
)

var redisPrefixes atomic.Int64

// redisPrefix gives each test keys of its own.
func redisPrefix() string { return fmt.Sprintf("cli%d-%d", os.Getpid(), redisPrefixes.Add(1)) }

// TestRedisURL: a wrong URL is an error at once, whatever the command, and tells no
// password.
func TestRedisURL(t *testing.T) {
	t.Parallel()
	for store, test := range map[string]struct {
		code int
		want string
	}{
		"redis://u:s3cret@127.0.0.1:1":                     {exitFailed, "Redis cannot be reached"},
		"rediss://u:s3cret@127.0.0.1:1":                    {exitFailed, "Redis cannot be reached"},
		"redis+cluster://u:s3cret@127.0.0.1:1,127.0.0.1:2": {exitFailed, "Redis cannot be reached"},
		"redis://u:s3cret@127.0.0.1:1,127.0.0.1:2":         {exitUsage, "several servers"},
		"redis://u:s3cret%zz@h":                            {exitUsage, "write redis://USER:PASSWORD@HOST:PORT, with %XX for"},
		"redis://u:s3cret#more@h":                          {exitUsage, "not a valid URL"},
		"redis:u:s3cret@h":                                 {exitUsage, "not a valid URL"},
		"redis+cluster:u:s3cret@h":                         {exitUsage, "write redis+cluster://"},
		"redis://u:s3cret@h/db":                            {exitUsage, "database"},
		"redis://u:s3cret@h?no_such=1":                     {exitUsage, "no_such"},
		"redis+cluster://u:s3cret@h?no_such=1":             {exitUsage, "no_such"},
		"redis://u:s3cret@h?rheo_window=perhaps":           {exitUsage, "rheo_window"},
		"redis://u:s3cret@h?rheo_window=1ms":               {exitFailed, "IdempotencyWindow"},
		"redis://u:s3cret@h?rheo_prefx=x":                  {exitUsage, "rheo_prefx"},
		"redis://u:s3cret@h?rheo_prefix=%7Bx%7D":           {exitFailed, "without braces"},
	} {
		s := &shellOf{t: t, store: store}
		for _, args := range append(everyCommand, []string{"migrate"}) {
			s.refused(test.code, test.want, args...)
		}
	}
}

func TestRedisAdvice(t *testing.T) {
	t.Parallel()
	s := &shellOf{t: t, store: testservers.OwnRedis(t, "maxmemory-policy", "allkeys-lru").URL()}
	r := s.run("migrate")
	if r.code != exitDone || !strings.Contains(r.stderr, "advice: maxmemory-policy is allkeys-lru") || !strings.Contains(r.stdout, "is ready") {
		t.Errorf("%+v", r)
	}
	contains(t, s.ok("migrate", "--print"), "redis: stores have no schema")
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	hosts := strings.Join(testservers.RedisCluster(t).Addresses(), ",")
	s := &shellOf{t: t, store: "redis+cluster://" + hosts + "?rheo_window=1h&rheo_prefix=" + redisPrefix()}
	s.ok("stream", "create", "n", "--partitions", "8")
	s.ok("group", "create", "n", "g")
	s.stdin = `{"x":1}` + "\n" + `{"x":2}` + "\n" + `{"x":3}`
	s.ok("append", "n")
	if got := events(t, s.ok("consume", "n", "g", "--until-empty")); len(got) != 3 {
		t.Errorf("consumed %d events", len(got))
	}
	contains(t, s.ok("lag", "n", "g", "--json"), `"lag":0`)
}
