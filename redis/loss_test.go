package redis_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// key is a key of the stream "orders" in partition 0.
func (s *store) key(rest string) string { return s.prefix + ":{orders:0}:" + rest }

// do sends a command of Redis itself.
func (s *store) do(tb testing.TB, command ...any) any {
	tb.Helper()
	reply, err := s.client.Do(tb.Context(), command...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatalf("%v: %v", command, err)
	}
	return reply
}

// calls are all that have to do with a partition.
func (s *store) calls(ctx context.Context, lease *rheo.Lease) map[string]func() error {
	return map[string]func() error{
		"stream info": func() error { _, err := s.StreamInfo(ctx, "orders"); return err },
		"append":      func() error { _, err := s.Append(ctx, "orders", rheo.Event{}); return err },
		"read":        func() error { _, err := s.Read(ctx, "orders", 0, 0, 10); return err },
		"query":       func() error { _, err := s.Query(ctx, "orders", rheo.Query{}); return err },
		"fetch":       func() error { _, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 10}); return err },
		"settle":      func() error { return s.Ack(ctx, lease) },
		"group info":  func() error { _, err := s.GroupInfo(ctx, "orders", "g"); return err },
		"replay": func() error {
			_, err := s.Replay(ctx, "orders", "g", rheo.ReplaySelection{FromSequence: 1})
			return err
		},
		"reset": func() error { return s.ResetGroup(ctx, "orders", "g", rheo.ResetOptions{Confirm: true}) },
	}
}

// filled makes a stream of ten events, of which "g" has acked three and leased a fourth.
func (s *store) filled(tb testing.TB) *rheo.Lease {
	tb.Helper()
	s.create(tb, "orders", 1, "g")
	if _, err := s.Append(tb.Context(), "orders", numbered(10)...); err != nil {
		tb.Fatal(err)
	}
	leases := s.fetch(tb, "g", 4)
	if err := s.Ack(tb.Context(), leases[:3]...); err != nil {
		tb.Fatal(err)
	}
	return leases[3]
}

func (s *store) fetch(tb testing.TB, group string, n int) []*rheo.Lease {
	tb.Helper()
	leases, err := s.Fetch(tb.Context(), "orders", group, rheo.FetchOptions{Max: n})
	if err != nil {
		tb.Fatal(err)
	}
	return leases
}

func sequences(leases []*rheo.Lease) []int64 {
	list := make([]int64, len(leases))
	for i, l := range leases {
		list[i] = l.Sequence
	}
	return list
}

// refuses checks that each call but those named fails like that, and says so.
func refuses(t *testing.T, calls map[string]func() error, sentinel error, text string, but ...string) {
	t.Helper()
	for name, call := range calls {
		if slices.Contains(but, name) {
			continue
		}
		if err := call(); !errors.Is(err, sentinel) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want %v that says %q", name, err, sentinel, text)
		}
	}
}

func TestRedisCameBackEmpty(t *testing.T) {
	t.Parallel()
	server := testservers.OwnRedis(t)
	s := openStore(t, newClient(t, server.URL()), rheoredis.Options{})
	lease := s.filled(t)
	calls := s.calls(t.Context(), lease)
	server.Kill(t)
	refuses(t, calls, rheo.ErrUnavailable, "cannot be reached")
	server.Empty(t)
	server.Restart(t)
	// The lease's group is gone, too, which is all that a settle looks at.
	refuses(t, calls, rheo.ErrStreamNotFound, "orders", "settle")
	if err := calls["settle"](); !errors.Is(err, rheo.ErrStreamNotFound) && !errors.Is(err, rheo.ErrGroupNotFound) {
		t.Errorf("settle: %v", err)
	}
	s.filled(t) // and it can be made again
}

func TestLostPartition(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	calls := s.calls(t.Context(), s.filled(t))
	s.do(t, "del", s.key("meta"))
	refuses(t, calls, rheo.ErrFailed, s.key("meta"), "settle")
	if err := s.CreateStream(t.Context(), "orders", rheo.StreamConfig{}); !errors.Is(err, rheo.ErrAlreadyExists) {
		t.Errorf("creating it again: %v", err)
	}
	refuses(t, calls, rheo.ErrFailed, s.key("meta"), "settle")
}

func TestLostLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	calls := s.calls(t.Context(), s.filled(t))
	s.do(t, "del", s.key("log"))
	refuses(t, calls, rheo.ErrFailed, s.key("log"), "stream info")
	if n := s.do(t, "exists", s.key("log")); n != int64(0) {
		t.Error("it was made again, from zero")
	}
}

// A registry that is lost with its server is filled again by creating the stream, which
// finds what its partitions hold.
func TestLostRegistry(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.filled(t)
	s.do(t, "del", s.prefix+":streams", s.key("meta"))
	other := openStore(t, s.client, rheoredis.Options{Prefix: s.prefix})
	if _, err := other.StreamInfo(t.Context(), "orders"); !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Fatalf("%v", err)
	}
	if err := other.CreateStream(t.Context(), "orders", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	results, err := other.Append(t.Context(), "orders", rheo.Event{})
	if err != nil || results[0].Sequence != 11 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestLostGroupState(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	lease := s.filled(t)
	s.do(t, "del", s.key("g:g"))
	calls := s.calls(t.Context(), lease)
	refuses(t, calls, rheo.ErrFailed, s.key("g:g"), "stream info", "append", "read", "query", "reset")
	if err := calls["reset"](); err != nil {
		t.Fatal(err)
	}
	if got := sequences(s.fetch(t, "g", 10)); len(got) != 10 || got[0] != 1 {
		t.Errorf("after the reset: %v", got)
	}
	s.do(t, "del", s.key("g:g"), s.prefix+":{orders}:groups")
	refuses(t, calls, rheo.ErrGroupNotFound, "g", "stream info", "append", "read", "query", "reset")
}

// journal takes what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// A consumer group that somebody destroys is made again where nothing is left out.
func TestDestroyedConsumerGroup(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"fetch", "settle", "renew", "group info", "replay of one"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			log := new(journal)
			s := newStore(t, rheoredis.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
			ctx := t.Context()
			lease := s.filled(t)
			s.do(t, "xgroup", "destroy", s.key("log"), "g")
			var got []*rheo.Lease
			switch first {
			case "fetch":
				got = s.fetch(t, "g", 100)
			case "settle":
				if err := s.Ack(ctx, lease); !errors.Is(err, rheo.ErrStaleLease) {
					t.Errorf("settle: %v", err)
				}
			case "renew":
				if results, err := s.Renew(ctx, rheo.DefaultLeaseDuration, lease); err != nil || !errors.Is(results[0].Err, rheo.ErrStaleLease) {
					t.Errorf("renew: %v, %v", results, err)
				}
			case "group info":
				info, err := s.GroupInfo(ctx, "orders", "g")
				if err != nil || info.Partitions[0].Frontier != 3 || info.InFlight() != 0 || info.Waiting() != 1 {
					t.Errorf("%+v, %v", info, err)
				}
			case "replay of one":
				if n, err := s.Replay(ctx, "orders", "g", rheo.ReplaySelection{IDs: []string{lease.ID}}); err != nil || n != 1 {
					t.Errorf("replay: %d, %v", n, err)
				}
			}
			got = append(got, s.fetch(t, "g", 100)...)
			if want := []int64{4, 5, 6, 7, 8, 9, 10}; !slices.Equal(sequences(got), want) {
				t.Errorf("got %v, want %v", sequences(got), want)
			}
			if n := strings.Count(log.String(), "was destroyed"); n != 1 {
				t.Errorf("it was told %d times: %s", n, log)
			}
			if err := s.Ack(ctx, got...); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that dies while it makes a group leaves one that the next completes.
func TestGroupMadeHalf(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 2)
	if _, err := s.Append(t.Context(), "orders", numbered(50)...); err != nil {
		t.Fatal(err)
	}
	high := s.do(t, "hget", s.key("meta"), "high").(string)
	s.do(t, "hset", s.prefix+":{orders}:groups", "half",
		`{"partitions":[0,1],"starts":[`+high+`,0],"max_attempts":5,"ordering":"none","created_at":1,"ready":false}`)
	if err := s.CreateGroup(t.Context(), "orders", "half", rheo.GroupConfig{}); !errors.Is(err, rheo.ErrAlreadyExists) {
		t.Fatal(err)
	}
	got := s.fetch(t, "half", 100)
	if len(got) == 0 || slices.ContainsFunc(got, func(l *rheo.Lease) bool { return l.Partition == 0 }) {
		t.Errorf("got %v", sequences(got))
	}
	if record := s.do(t, "hget", s.prefix+":{orders}:groups", "half").(string); !strings.Contains(record, `"ready":true`) {
		t.Error(record)
	}
}

// Who trims a log, against all advice, loses the events and no more.
func TestTrimmedLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 1, "g", "late")
	if _, err := s.Append(t.Context(), "orders", numbered(3000)...); err != nil {
		t.Fatal(err)
	}
	leases := s.fetch(t, "g", 100)
	s.do(t, "xtrim", s.key("log"), "minid", "2501")
	if got := sequences(s.fetch(t, "late", 10)); len(got) != 10 || got[0] != 2501 {
		t.Errorf("got %v", got)
	}
	if err := s.Nack(t.Context(), "again", 0, leases...); err != nil {
		t.Fatal(err)
	}
	if got := sequences(s.fetch(t, "g", 10)); len(got) != 10 || got[0] != 2501 {
		t.Errorf("got %v", got)
	}
	events, err := s.Read(t.Context(), "orders", 0, 0, 5)
	if err != nil || len(events) != 5 || events[0].Sequence != 2501 {
		t.Errorf("read %v, %v", events, err)
	}
	results, err := s.Append(t.Context(), "orders", rheo.Event{})
	if err != nil || results[0].Sequence != 3001 {
		t.Errorf("%+v, %v", results, err)
	}
}

// Single events that were taken out leave gaps, wherever they lie, and the others are each
// delivered as what they are.
func TestGapsInTheLog(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]int64{
		"none":            nil,
		"the first":       {1, 2},
		"at the start":    {3, 5, 6},
		"further on":      {1500, 1501, 2100},
		"a page":          consecutive(1001, 2000),
		"the last":        {2500},
		"here and there":  {1, 2, 999, 1000, 1001, 1400, 2499},
		"but for the end": consecutive(1, 2499),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, rheoredis.Options{})
			s.create(t, "orders", 1, "g")
			results, err := s.Append(t.Context(), "orders", numbered(2500)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range gone {
				s.do(t, "xdel", s.key("log"), n)
			}
			want := consecutive(1, 2500)
			want = slices.DeleteFunc(want, func(n int64) bool { return slices.Contains(gone, n) })
			leases := s.fetch(t, "g", 3000)
			if got := sequences(leases); !slices.Equal(got, want) {
				t.Fatalf("got %d events from %d on, want %d from %d on", len(got), got[0], len(want), want[0])
			}
			for _, l := range leases {
				if r := results[l.Sequence-1]; l.ID != r.ID || string(l.Payload) != string(r.Payload) {
					t.Fatalf("sequence %d is %s %s, want %s %s", l.Sequence, l.ID, l.Payload, r.ID, r.Payload)
				}
			}
			if err := s.Ack(t.Context(), leases...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func consecutive(first, last int64) []int64 {
	all := make([]int64, 0, last-first+1)
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// An entry that somebody else has added is told, not skipped.
func TestEventsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.filled(t)
	s.do(t, "xadd", s.key("log"), "11", "somebody", "else")
	if _, err := s.Append(t.Context(), "orders", rheo.Event{}); !errors.Is(err, rheo.ErrFailed) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Read(t.Context(), "orders", 0, 0, 20); !errors.Is(err, rheo.ErrFailed) || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("read: %v", err)
	}
}
