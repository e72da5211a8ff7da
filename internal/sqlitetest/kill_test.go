package sqlitetest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

const victimLease = 30 * time.Millisecond

// victim appends and consumes until it is killed, and prints what was confirmed to
// it, once it was.
func victim(ctx context.Context, p *player) error {
	errs := make([]error, 4)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			if g%2 == 0 {
				errs[g] = p.appendOn(ctx, g)
			} else {
				errs[g] = p.consumeOn(ctx)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (p *player) appendOn(ctx context.Context, g int) error {
	for n := 0; ; n++ {
		events := make([]rheo.Event, 1+n%7)
		for i := range events {
			events[i] = rheo.Event{ID: fmt.Sprintf("%s-%d-%d-%d", p.name, g, n, i), Payload: []byte(`{"n":1}`)}
		}
		results, err := p.Append(ctx, sharedStream, events...)
		if err != nil {
			return err
		}
		lines := make([]string, len(results))
		for i, r := range results {
			lines[i] = fmt.Sprintf("appended %s %d %d", r.ID, r.Partition, r.Sequence)
		}
		if err := p.say(lines...); err != nil {
			return err
		}
	}
}

func (p *player) consumeOn(ctx context.Context) error {
	for n := 0; ; n++ {
		leases, err := p.Fetch(ctx, sharedStream, sharedGroup, rheo.FetchOptions{Max: 10, LeaseDuration: victimLease})
		if err != nil {
			return err
		}
		var leased, acked []string
		for _, l := range leases {
			leased = append(leased, fmt.Sprintf("leased %s %d 0", l.ID, l.Attempt))
			acked = append(acked, fmt.Sprintf("acked %s 0 0", l.ID))
		}
		if err := p.say(leased...); err != nil {
			return err
		}
		if n%3 == 0 {
			continue // left to expire
		}
		settlements := make([]rheo.Settlement, len(leases))
		for i, l := range leases {
			settlements[i] = rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck}
		}
		results, err := p.Settle(ctx, settlements...)
		if err != nil {
			return err
		}
		var held []string
		for i, err := range results {
			if err == nil {
				held = append(held, acked[i])
			}
		}
		if err := p.say(held...); err != nil {
			return err
		}
	}
}

// witness holds what victims were confirmed.
type witness struct {
	places   map[string][2]int64
	attempts map[string]map[int64]bool // that each event was delivered on
	acked    map[string]bool

	// The same of the victims before this one. Within one, lines of different
	// goroutines may come in another order than what they tell of.
	lastAttempt map[string]int64
	ackedBefore map[string]bool
}

func newWitness() *witness {
	return &witness{
		places: make(map[string][2]int64), attempts: make(map[string]map[int64]bool), acked: make(map[string]bool),
		lastAttempt: make(map[string]int64), ackedBefore: make(map[string]bool),
	}
}

// turn is called between two victims.
func (w *witness) turn() {
	for id := range w.acked {
		w.ackedBefore[id] = true
	}
	for id, attempts := range w.attempts {
		for a := range attempts {
			w.lastAttempt[id] = max(w.lastAttempt[id], a)
		}
	}
}

// hear takes one line.
func (w *witness) hear(t *testing.T, line string) {
	t.Helper()
	var verb, id string
	var a, b int64
	if n, _ := fmt.Sscanf(line, "%s %s %d %d", &verb, &id, &a, &b); n != 4 {
		return // cut off by the kill
	}
	switch verb {
	case "appended":
		w.places[id] = [2]int64{a, b}
	case "leased":
		if w.ackedBefore[id] {
			t.Errorf("%s was delivered again, on attempt %d, after its ack was confirmed", id, a)
		}
		if a <= w.lastAttempt[id] || w.attempts[id][a] {
			t.Errorf("%s was delivered on attempt %d, after %d before the last kill", id, a, w.lastAttempt[id])
		}
		if w.attempts[id] == nil {
			w.attempts[id] = make(map[int64]bool)
		}
		w.attempts[id][a] = true
	case "acked":
		w.acked[id] = true
	}
}

// TestKill kills a process under load many times over, and checks each time that
// what was confirmed is there.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 30
	if raceEnabled || testing.Short() {
		kills = 10
	}
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			in, path := shared(t, s, 2)
			w := newWitness()
			for n := range kills {
				w.kill(t, s, path, fmt.Sprint("v", n))
				places := gapless(t, in)
				for id, place := range w.places {
					if places[id] != place {
						t.Fatalf("after kill %d: %s was confirmed at %v and is at %v", n+1, id, place, places[id])
					}
				}
			}
			t.Logf("%d appended, %d leased, %d acked", len(w.places), len(w.attempts), len(w.acked))
			if len(w.places) == 0 || len(w.acked) == 0 {
				t.Error("the victims never got to work")
			}
			w.finish(t, in)
		})
	}
}

func (w *witness) kill(t *testing.T, s setting, path, name string) {
	t.Helper()
	cmd := spawn(t, s, "victim", path, name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.turn()
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		if first {
			time.AfterFunc(rand.N(150*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
		w.hear(t, lines.Text())
	}
	_ = cmd.Wait() // it was killed
}

// finish consumes what is left.
func (w *witness) finish(t *testing.T, in *rheo.Instance) {
	t.Helper()
	w.turn()
	for lag := int64(1); lag > 0; {
		leases, err := in.Fetch(t.Context(), sharedStream, sharedGroup, rheo.FetchOptions{Max: rheo.MaxBatch})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			w.hear(t, fmt.Sprintf("leased %s %d 0", l.ID, l.Attempt))
		}
		if err := in.Ack(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
		of, err := in.Lag(t.Context(), sharedStream, sharedGroup)
		if err != nil {
			t.Fatal(err)
		}
		lag = of.Lag
	}
}
