package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/postgres"
)

// leaseRow is a row of the view.
type leaseRow struct {
	From, To int64
	State    string
	Attempt  int
	Consumer *string
	Claim    *string
	Reason   *string
}

// The view shows the ledgers, whose encoding is read by SQL.
func TestLeasesView(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	ctx := t.Context()
	s.create(t, "orders", 1)
	if err := s.CreateGroup(ctx, "orders", "g", rheo.GroupConfig{MaxAttempts: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, "orders", numbered(300)...); err != nil {
		t.Fatal(err)
	}
	// Twenty consumers, more than the encoding remembers; reasons that repeat.
	want := make(map[int64]leaseRow)
	for i := range 20 {
		leases, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 10, ConsumerID: fmt.Sprint("consumer ", i), LeaseDuration: time.Duration(i+1) * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for j, l := range leases {
			consumer, claim := fmt.Sprint("consumer ", i), l.LeaseID[:16]
			row := leaseRow{State: "leased", Attempt: l.Attempt, Consumer: &consumer, Claim: &claim}
			if l.LastReason != "" {
				row.Reason = &l.LastReason
			}
			if j%3 == 0 {
				reason := fmt.Sprint("reason ü ", i%4)
				if err := s.Nack(ctx, reason, time.Duration(j)*time.Minute, l); err != nil {
					t.Fatal(err)
				}
				row = leaseRow{State: "available", Attempt: l.Attempt, Reason: &reason}
			}
			if want[l.Sequence] = row; j == 5 {
				if err := s.Ack(ctx, l); err != nil {
					t.Fatal(err)
				}
				delete(want, l.Sequence)
			}
		}
	}
	rows, err := s.pool.Query(ctx, `SELECT from_sequence, to_sequence, state, attempt, consumer, claim, reason FROM rheo_leases WHERE stream = 'orders' AND "group" = 'g'`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[leaseRow])
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, row := range found {
		for n := row.From; n <= row.To; n++ {
			got++
			if describe(row) != describe(want[n]) {
				t.Errorf("sequence %d: %s, want %s", n, describe(row), describe(want[n]))
			}
		}
	}
	if got != len(want) {
		t.Errorf("%d deliveries in the view, want %d", got, len(want))
	}
}

func describe(r leaseRow) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprint(r.State, " ", r.Attempt, " ", text(r.Consumer), " ", text(r.Claim), " ", text(r.Reason))
}

func TestLagAndDeadLettersViews(t *testing.T) {
	t.Parallel()
	s := newStore(t, postgres.Options{})
	ctx := t.Context()
	s.create(t, "orders", 1, "g")
	if _, err := s.Append(ctx, "orders", pinned(0, "a", "b", "c", "d")...); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ack(ctx, leases[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.Reject(ctx, "it's broken", leases[2]); err != nil {
		t.Fatal(err)
	}
	var line string
	err = s.pool.QueryRow(ctx, `SELECT concat_ws(' ', stream, "group", partition, frontier, cursor, high_watermark, lag, oldest_unacked > interval '0') FROM rheo_lag`).Scan(&line)
	if err != nil || line != "orders g 0 1 3 4 3 t" {
		t.Errorf("rheo_lag: %q, %v", line, err)
	}
	err = s.pool.QueryRow(ctx, `SELECT concat_ws(' ', stream, "group", partition, sequence, event_id, attempts, reason, payload) FROM rheo_dead_letters`).Scan(&line)
	if err != nil || line != `orders g 0 3 c 1 it's broken {"a": [1]}` {
		t.Errorf("rheo_dead_letters: %q, %v", line, err)
	}
}
