package sqlitetest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// TestTogether has calls that fail share transactions with calls that do not.
func TestTogether(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(b *bundle) {
		ctx := b.Context()
		const callers = 64
		errs := make([]error, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				e := event(fmt.Sprint(i / 2 * 2)) // every ID by two callers
				expected := rheo.ExpectedSequence(nil)
				if i%8 == 7 {
					e.ID = fmt.Sprint("conflict", i)
					expected = rheo.ExpectedSequence{0: 1 << 30, 1: 1 << 30}
				}
				_, errs[i] = b.in.AppendExpecting(ctx, "orders", expected, e)
			})
		}
		all.Wait()
		for i, err := range errs {
			if i%8 == 7 && !errors.Is(err, rheo.ErrConflict) || i%8 != 7 && err != nil {
				b.Errorf("caller %d: %v", i, err)
			}
		}
		b.high(callers / 2)
	})
}

// TestTogetherOnFullDisk has a call that does not fit among some that do.
func TestTogetherOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			db := s.open(t, file(t))
			db.SetMaxOpenConns(1)
			in := instance(t, db)
			ctx := t.Context()
			if err := in.CreateStream(ctx, "s", rheo.StreamConfig{}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(ctx, "PRAGMA max_page_count = 60"); err != nil {
				t.Fatal(err)
			}
			held, err := db.Conn(ctx) // so that the calls come together
			if err != nil {
				t.Fatal(err)
			}
			errs := make([]error, 9)
			var all sync.WaitGroup
			for i := range errs {
				payload := `"small"`
				if i == 4 {
					payload = `"` + strings.Repeat("x", 900_000) + `"`
				}
				all.Go(func() { _, errs[i] = in.Append(ctx, "s", rheo.Event{Payload: []byte(payload)}) })
			}
			timer := time.NewTimer(20 * time.Millisecond)
			<-timer.C
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			wants(t, "the large one", errs[4], rheo.ErrFailed, "full")
			errs[4] = nil
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			info, err := in.StreamInfo(ctx, "s")
			if err != nil || info.Events() != 8 {
				t.Errorf("%d events and %v, want 8", info.Events(), err)
			}
		})
	}
}

// TestHintsOfOthers watches through one backend what another appends and gives
// back.
func TestHintsOfOthers(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			in, path := shared(t, s, 2)
			other := newInstance(t, s.open(t, path), nil)
			hints, stop := in.Backend().(rheo.Waiter).Watch(sharedStream)
			defer stop()
			hint := func(after string) {
				t.Helper()
				const patience = 20 * time.Second
				timer := time.NewTimer(patience)
				defer timer.Stop()
				select {
				case <-hints:
				case <-timer.C:
					t.Errorf("no hint after %s", after)
				}
			}
			ctx := t.Context()
			for range 3 {
				if _, err := other.Append(ctx, sharedStream, rheo.Event{}); err != nil {
					t.Fatal(err)
				}
				hint("an append")
			}
			leases, err := other.Fetch(ctx, sharedStream, sharedGroup, rheo.FetchOptions{Max: 3})
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Nack(ctx, "later", 0, leases...); err != nil {
				t.Fatal(err)
			}
			hint("a nack")
		})
	}
}

// TestTimeBounds compares queries by narrow and wide bounds of time with what they
// should find, in both orders.
func TestTimeBounds(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(b *bundle) {
		ctx := b.Context()
		start := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
		const n = 300
		var events []rheo.Event
		for i := range n {
			at := start.Add(time.Duration(i*7%n) * time.Second) // not in the order of time
			events = append(events, rheo.Event{Timestamp: at, Partition: i % 2, Pinned: true})
		}
		if _, err := b.in.Append(ctx, "orders", events...); err != nil {
			b.Fatal(err)
		}
		for _, q := range []rheo.Query{
			{From: start.Add(10 * time.Second), To: start.Add(20 * time.Second)},
			{From: start.Add(10*time.Second + time.Nanosecond), To: start.Add(20*time.Second + time.Nanosecond)},
			{From: start.Add(290 * time.Second)},
			{To: start.Add(10 * time.Second)},
			{From: start.Add(time.Hour)},
		} {
			want := 0
			for i := range events {
				if !events[i].Timestamp.Before(q.From) && (q.To.IsZero() || events[i].Timestamp.Before(q.To)) {
					want++
				}
			}
			for _, order := range []rheo.OrderBy{rheo.BySequence, rheo.ByTimestamp} {
				for _, descending := range []bool{false, true} {
					q.OrderBy, q.Descending = order, descending
					found, err := b.in.Query(ctx, "orders", q)
					if err != nil || len(found) != want {
						b.Errorf("%+v found %d and %v, want %d", q, len(found), err, want)
					}
				}
			}
		}
	})
}
