package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// awaitHint fails if no hint comes within a time that is far above what one takes.
func awaitHint(t *testing.T, what string, hints <-chan struct{}) {
	t.Helper()
	const patience = 20 * time.Second
	select {
	case <-hints:
	case <-time.After(patience):
		t.Fatalf("no hint after %s", what)
	}
}

func TestHintsFromAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func() redis.UniversalClient{
		"single":  func() redis.UniversalClient { return newClient(t, testservers.OwnRedis(t).URL()) },
		"cluster": func() redis.UniversalClient { return newClusterClient(t, testservers.OwnRedisCluster(t, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect()
			here := openStore(t, client, rheoredis.Options{})
			there := openStore(t, client, rheoredis.Options{Prefix: here.prefix})
			here.create(t, "orders", 4)
			here.create(t, "others", 1)
			hints, stop := here.backend.Watch("orders")
			defer stop()
			awaitHint(t, "listening began", hints)
			append1 := func(stream string) {
				t.Helper()
				if _, err := there.Append(t.Context(), stream, rheo.Event{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 5 {
				append1("orders")
				awaitHint(t, "an append", hints)
			}
			others, stopOthers := here.backend.Watch("others")
			defer stopOthers()
			awaitHint(t, "listening to another began", others)
			append1("others")
			awaitHint(t, "an append to the other", others)
			for len(hints) > 0 {
				<-hints
			}
			here.killBlocked(t)
			append1("orders")
			awaitHint(t, "an append after the reconnect", hints)
		})
	}
}

// killBlocked ends the connections that wait in a blocking read.
func (s *store) killBlocked(t *testing.T) {
	t.Helper()
	var servers []*redis.Client
	switch c := s.client.(type) {
	case *redis.Client:
		servers = append(servers, c)
	case *redis.ClusterClient:
		for _, address := range c.Options().Addrs {
			servers = append(servers, openClient(t, redis.NewClient(&redis.Options{Addr: address})))
		}
	}
	eventually(t, "a connection waits", func() bool {
		killed := 0
		for _, server := range servers {
			list, err := server.ClientList(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(list) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				if strings.Contains(line, "cmd=xread ") {
					killed++
					if err := server.Do(t.Context(), "client", "kill", "id", id).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		return killed > 0
	})
}
