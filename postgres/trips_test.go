package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
	"github.com/rheo-go/rheo/postgres"
)

// behindProxy opens a store whose one connection leads through a proxy.
func behindProxy(t *testing.T, mode pgx.QueryExecMode) (*store, *testservers.Proxy) {
	t.Helper()
	database := testservers.Postgres(t).Database(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testservers.NewProxy(t, u.Host)
	s := openStore(t, proxy.URL(t, database), postgres.Options{WithoutNotify: true}, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DefaultQueryExecMode = mode
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	return s, proxy
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t, pgx.QueryExecModeCacheStatement)
	ctx := t.Context()
	s.create(t, "orders", 4, "g")
	var leases []*rheo.Lease
	var settled []rheo.Settlement
	steps := []struct {
		name string
		most int64
		do   func() error
	}{
		{"append of 100", 1, func() error { _, err := s.Append(ctx, "orders", numbered(100)...); return err }},
		{"append of 1", 1, func() error { _, err := s.Append(ctx, "orders", rheo.Event{}); return err }},
		{"append expecting", 1, func() error {
			info, err := s.backend.Stream(ctx, "orders")
			if err != nil {
				return err
			}
			_, err = s.AppendExpecting(ctx, "orders", rheo.ExpectedSequence{0: info.HighWatermarks[0]}, rheo.Event{Pinned: true})
			return err
		}},
		{"fetch", 2, func() (err error) {
			leases, err = s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 60})
			return err
		}},
		{"renew", 1, func() error { _, err := s.Renew(ctx, time.Minute, leases...); return err }},
		{"settle", 1, func() error {
			for i, l := range leases {
				outcome := []rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeNack, rheo.OutcomeReject}[i%3]
				settled = append(settled, rheo.Settlement{Lease: l, Outcome: outcome, Delay: time.Duration(i%3) * time.Hour})
			}
			results, err := s.Settle(ctx, settled...)
			return errors.Join(append(results, err)...)
		}},
		{"fetch of the rest", 2, func() error {
			_, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 1000})
			return err
		}},
		{"fetch of nothing", 1, func() error {
			leases, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 1000})
			if len(leases) > 0 {
				return errors.New("there was something")
			}
			return err
		}},
		{"read", 1, func() error { _, err := s.Read(ctx, "orders", 0, 0, 100); return err }},
		{"lag", 1, func() error { _, err := s.Lag(ctx, "orders", "g"); return err }},
	}
	for round := range 2 { // in the first one, statements are prepared
		leases, settled = nil, nil
		for _, step := range steps {
			before := proxy.Trips()
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			trips := proxy.Trips() - before
			if step.name == "append expecting" {
				trips-- // it looked up the sequence to expect
			}
			if round > 0 && trips > step.most {
				t.Errorf("%s took %d round trips, want %d at most", step.name, trips, step.most)
			}
		}
	}
}

// What this process knows to be there it fetches in one round trip. For how long
// it does without looking is bounded, so a slow machine may take some tries.
func TestFetchOfWhatIsKnown(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t, pgx.QueryExecModeCacheStatement)
	ctx := t.Context()
	s.create(t, "orders", 1, "g")
	fewest := int64(2)
	for tries := 0; fewest > 1 && tries < 100; tries++ {
		if _, err := s.Append(ctx, "orders", numbered(20)...); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			before := proxy.Trips()
			leases, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 10})
			if err != nil || len(leases) != 10 {
				t.Fatalf("%d leases, %v", len(leases), err)
			}
			fewest = min(fewest, proxy.Trips()-before)
		}
	}
	if fewest != 1 {
		t.Errorf("a fetch took %d round trips, want 1", fewest)
	}
}
