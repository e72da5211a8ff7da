package faultbackend_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
	"github.com/rheo-go/rheo/memory"
)

var errTest = errors.New("of the test")

// setup returns a store with four events and a group, and an instance over it.
func setup(t *testing.T) (*faultbackend.Backend, *rheo.Instance) {
	t.Helper()
	store := faultbackend.New(memory.New(nil))
	r, err := rheo.New(store, nil)
	must(t, err)
	must(t, r.CreateStream(t.Context(), "s", rheo.StreamConfig{}))
	must(t, r.CreateGroup(t.Context(), "s", "g", rheo.GroupConfig{}))
	_, err = r.Append(t.Context(), "s", rheo.Event{ID: "a"}, rheo.Event{ID: "b"}, rheo.Event{ID: "c"}, rheo.Event{ID: "d"})
	must(t, err)
	return store, r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, r *rheo.Instance) []*rheo.Lease {
	t.Helper()
	leases, err := r.Fetch(t.Context(), "s", "g", rheo.FetchOptions{Max: 10})
	must(t, err)
	return leases
}

func settlements(leases []*rheo.Lease) []rheo.Settlement {
	all := make([]rheo.Settlement, len(leases))
	for at, l := range leases {
		all[at] = rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck}
	}
	return all
}

func TestCallsAreNoted(t *testing.T) {
	t.Parallel()
	store, r := setup(t)
	leases := fetch(t, r)
	_, err := r.Renew(t.Context(), time.Minute, leases...)
	must(t, err)
	must(t, r.Ack(t.Context(), leases...))
	if err := r.Ack(t.Context(), leases[0]); !errors.Is(err, rheo.ErrStaleLease) {
		t.Fatal(err)
	}
	if c := store.Calls(faultbackend.Fetch)[0]; c.Max != 10 || len(c.Leases) != 4 || c.Number != 1 || c.Err != nil {
		t.Errorf("%+v", c)
	}
	if c := store.Calls(faultbackend.Renew)[0]; !slices.Equal(c.Leases, leases) || len(c.Items) != 4 {
		t.Errorf("%+v", c)
	}
	c := store.Calls(faultbackend.Settle)[1]
	if c.Number != 2 || c.Settlements[0].Lease != leases[0] || !errors.Is(c.Items[0], rheo.ErrStaleLease) {
		t.Errorf("%+v", c)
	}
	store.Forget()
	if len(store.Calls(faultbackend.Settle)) != 0 || store.Count(faultbackend.Settle) != 2 {
		t.Error("Forget must empty the log and not the count")
	}
}

func TestFailAndLoseReply(t *testing.T) {
	t.Parallel()
	store, r := setup(t)
	remove := store.Inject(faultbackend.Fail(errTest), faultbackend.Fetch)
	if _, err := r.Fetch(t.Context(), "s", "g", rheo.FetchOptions{}); !errors.Is(err, errTest) {
		t.Errorf("Fail: %v", err)
	}
	remove()
	leases := fetch(t, r)
	if leases[0].Attempt != 1 {
		t.Error("the call that failed reached the store")
	}
	store.Inject(faultbackend.Times(1, faultbackend.LoseReply(errTest)), faultbackend.Settle)
	if err := r.Ack(t.Context(), leases...); !errors.Is(err, errTest) {
		t.Errorf("LoseReply: %v", err)
	}
	if err := r.Ack(t.Context(), leases...); !errors.Is(err, rheo.ErrStaleLease) {
		t.Errorf("the call whose reply was lost did not reach the store: %v", err)
	}
	store.Inject(faultbackend.Fail(errTest)) // everything
	if err := r.Ping(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Ping: %v", err)
	}
}

func TestItems(t *testing.T) {
	t.Parallel()
	only := func(ids ...string) func(*rheo.Lease) error {
		return func(l *rheo.Lease) error {
			if slices.Contains(ids, l.ID) {
				return errTest
			}
			return nil
		}
	}
	t.Run("settle", func(t *testing.T) {
		t.Parallel()
		store, r := setup(t)
		leases := fetch(t, r)
		remove := store.Inject(faultbackend.Items(only("b")), faultbackend.Settle)
		store.Inject(faultbackend.LoseItems(only("c")), faultbackend.Settle)
		errs, err := r.Settle(t.Context(), settlements(leases)...)
		if err != nil || !slices.Equal(errs, []error{nil, errTest, errTest, nil}) {
			t.Errorf("%v, %v", errs, err)
		}
		remove()
		errs, err = r.Settle(t.Context(), settlements(leases[1:3])...)
		if err != nil || errs[0] != nil || !errors.Is(errs[1], errTest) { // c is gone, and lost again
			t.Errorf("%v, %v", errs, err)
		}
	})
	t.Run("renew", func(t *testing.T) {
		t.Parallel()
		store, r := setup(t)
		leases := fetch(t, r)
		store.Inject(faultbackend.Items(only("b", "c", "d")), faultbackend.Renew)
		results, err := r.Renew(t.Context(), time.Hour, leases...)
		must(t, err)
		for at, result := range results {
			if failed := at > 0; failed != (result.Err != nil) || failed != result.ExpiresAt.IsZero() {
				t.Errorf("%d: %+v", at, result)
			}
		}
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		store, r := setup(t)
		leases := fetch(t, r)
		store.Inject(faultbackend.Items(func(*rheo.Lease) error { return errTest }))
		if errs, err := r.Settle(t.Context(), settlements(leases)...); err != nil || len(errs) != 4 || !errors.Is(errs[3], errTest) {
			t.Errorf("%v, %v", errs, err)
		}
		if results, err := r.Renew(t.Context(), time.Hour, leases...); err != nil || len(results) != 4 || !errors.Is(results[3].Err, errTest) {
			t.Errorf("%v, %v", results, err)
		}
	})
}

func TestHoldAndDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, r := setup(t)
		for name, test := range map[string]struct {
			fault faultbackend.Fault
			want  error
		}{
			"hold":        {faultbackend.Hold(nil), rheo.ErrUnavailable},
			"hold reply":  {faultbackend.HoldReply(nil), rheo.ErrAmbiguous},
			"delay":       {faultbackend.Delay(time.Minute), rheo.ErrUnavailable},
			"delay reply": {faultbackend.DelayReply(time.Minute), rheo.ErrAmbiguous},
		} {
			remove := store.Inject(test.fault, faultbackend.Ping)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := r.Ping(ctx); !errors.Is(err, test.want) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
			remove()
		}
		gate := make(chan struct{})
		store.Inject(faultbackend.All(faultbackend.Delay(time.Second), faultbackend.Hold(gate)), faultbackend.Ping)
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { close(gate) })
		for _, want := range []time.Duration{3 * time.Second, 4 * time.Second} {
			if err := r.Ping(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(start), want)
			}
		}
		if took := store.Calls(faultbackend.Ping)[4].Took; took != 3*time.Second {
			t.Errorf("noted as taking %v", took)
		}
	})
}

func TestWhenAndOrder(t *testing.T) {
	t.Parallel()
	store, r := setup(t)
	third := func(c *faultbackend.Call) bool { return c.Number == 3 }
	store.Inject(faultbackend.When(third, faultbackend.Fail(errTest)), faultbackend.Ping)
	store.Inject(faultbackend.Fail(rheo.ErrFailed), faultbackend.Ping) // inside the other
	for n := 1; n <= 4; n++ {
		err := r.Ping(t.Context())
		if want := n == 3; errors.Is(err, errTest) != want || errors.Is(err, rheo.ErrFailed) == want {
			t.Errorf("call %d: %v", n, err)
		}
	}
}

func TestHintsPassThrough(t *testing.T) {
	t.Parallel()
	store, r := setup(t)
	hints, stop := store.Watch("s")
	defer stop()
	_, err := r.Append(t.Context(), "s", rheo.Event{})
	must(t, err)
	<-hints
	if hints, stop := faultbackend.New(struct{ rheo.Backend }{store}).Watch("s"); hints != nil {
		t.Error("hints from a backend without")
	} else {
		stop()
	}
}

// Every call reaches the store unchanged.
func TestPassesEverything(t *testing.T) {
	t.Parallel()
	store, r := setup(t)
	ctx := t.Context()
	must(t, r.EnsureSchema(ctx))
	must(t, r.Reject(ctx, "no", fetch(t, r)...))
	if page, err := r.DeadLettersPage(ctx, "s", "g", rheo.Cursor{}, 0); err != nil || len(page.DeadLetters) != 4 {
		t.Errorf("DeadLetters: %v, %v", page, err)
	}
	if n, err := r.Replay(ctx, "s", "g", rheo.ReplaySelection{FromSequence: 2}); err != nil || n != 3 {
		t.Errorf("Replay: %d, %v", n, err)
	}
	must(t, r.ResetGroup(ctx, "s", "g", rheo.ResetOptions{Confirm: true}))
	if info, err := r.GroupInfo(ctx, "s", "g"); err != nil || info.Lag() != 4 {
		t.Errorf("Group: %v, %v", info, err)
	}
	if groups, err := r.Groups(ctx, "s"); err != nil || len(groups) != 1 {
		t.Errorf("Groups: %v, %v", groups, err)
	}
	if streams, err := r.Streams(ctx); err != nil || len(streams) != 1 {
		t.Errorf("Streams: %v, %v", streams, err)
	}
	if events, err := r.Read(ctx, "s", 0, 0, 10); err != nil || len(events) != 4 {
		t.Errorf("Read: %v, %v", events, err)
	}
	if page, err := r.QueryPage(ctx, "s", rheo.Query{Limit: 2}, rheo.Cursor{}); err != nil || len(page.Events) != 2 {
		t.Errorf("Query: %v, %v", page, err)
	}
	if !store.Capabilities().Guarantees.Replay {
		t.Error("Capabilities")
	}
	must(t, r.Close())
	if err := store.Ping(ctx); !errors.Is(err, rheo.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
