package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	rheoredis "github.com/rheo-go/rheo/redis"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	client := openClient(t, redis.NewClient(&redis.Options{}))
	for want, o := range map[string]rheoredis.Options{
		"without braces":            {Prefix: "a{b}"},
		"must be printable":         {Prefix: "a\nb"},
		"has 256 bytes":             {Prefix: strings.Repeat("x", 256)},
		"Options.IdempotencyWindow": {IdempotencyWindow: time.Millisecond},
		"is -1h0m0s":                {IdempotencyWindow: -time.Hour},
	} {
		if _, err := rheoredis.New(client, &o); !errors.Is(err, rheo.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something about %q", o, err, want)
		}
	}
	if _, err := rheoredis.New(client, nil); err != nil {
		t.Errorf("without options: %v", err)
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	ring := openClient(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))
	replicas := openClient(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, RouteByLatency: true}))
	var none *redis.Client
	var noCluster *redis.ClusterClient
	for name, c := range map[string]struct {
		client redis.UniversalClient
		want   error
	}{
		"nil":                      {nil, rheo.ErrInvalid},
		"a nil client":             {none, rheo.ErrInvalid},
		"a nil cluster client":     {noCluster, rheo.ErrInvalid},
		"a ring":                   {ring, rheo.ErrUnsupported},
		"one that reads replicas ": {replicas, rheo.ErrUnsupported},
	} {
		if _, err := rheoredis.New(c.client, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// An ID is known for at least one window, and at most two.
func TestIdempotencyWindow(t *testing.T) {
	t.Parallel()
	clock := &steppedClock{now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	s := newStore(t, rheoredis.Options{IdempotencyWindow: time.Hour, Clock: clock})
	s.create(t, "orders", 1)
	appended := func(id string) (duplicate bool) {
		t.Helper()
		results, err := s.Append(t.Context(), "orders", rheo.Event{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Duplicate
	}
	appended("first")
	clock.now = clock.now.Add(59 * time.Minute)
	appended("late")
	for range 60 {
		clock.now = clock.now.Add(time.Minute)
		if !appended("late") {
			t.Fatalf("at %v it was not known", clock.now)
		}
	}
	if !appended("late") {
		t.Error("an ID was forgotten when the next window began")
	}
	clock.now = clock.now.Add(2 * time.Hour)
	if appended("late") {
		t.Error("an ID is known after three windows")
	}
	if n := s.do(t, "exists", s.key("ids:0"), s.key("ids:1")); n != int64(1) {
		t.Errorf("%v generations are left", n)
	}
	if ttl := s.do(t, "pttl", s.key("ids:0")).(int64) + s.do(t, "pttl", s.key("ids:1")).(int64); ttl < time.Hour.Milliseconds() {
		t.Errorf("the IDs live for %d ms", ttl)
	}
}

type steppedClock struct{ now time.Time }

func (c *steppedClock) Now() time.Time { return c.now }
