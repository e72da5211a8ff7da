package sqlitetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

const (
	contenders = 8  // goroutines of each process
	rounds     = 30 // of each goroutine
)

// contender appends, reads, fetches and settles in several goroutines, and fails
// with the first error. It prints what it has acked.
func contender(ctx context.Context, p *player) error {
	errs := make([]error, contenders)
	var all sync.WaitGroup
	for g := range contenders {
		all.Go(func() { errs[g] = p.contendIn(ctx, g) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (p *player) contendIn(ctx context.Context, g int) error {
	var slowest time.Duration
	for n := range rounds {
		start := time.Now()
		var events []rheo.Event
		for i := range 1 + n%3 {
			events = append(events, rheo.Event{ID: fmt.Sprintf("%s-%d-%d-%d", p.name, g, n, i), Payload: []byte(`{"n":1}`)})
		}
		if _, err := p.Append(ctx, sharedStream, events...); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		leases, err := p.Fetch(ctx, sharedStream, sharedGroup, rheo.FetchOptions{Max: 5})
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if err := p.Ack(ctx, leases...); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
		for _, l := range leases {
			if err := p.say("acked " + l.ID); err != nil {
				return err
			}
		}
		if _, err := p.Lag(ctx, sharedStream, sharedGroup); err != nil {
			return fmt.Errorf("lag: %w", err)
		}
		if _, err := p.Read(ctx, sharedStream, n%2, 0, 20); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		slowest = max(slowest, time.Since(start))
	}
	return p.say(fmt.Sprintf("slowest %v", slowest.Round(time.Millisecond)))
}

// TestTwoProcesses has two processes with eight goroutines each on one file, none
// of which may see that the database is locked.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			in, path := shared(t, s, 2)
			var outputs [2]bytes.Buffer
			var all sync.WaitGroup
			for i := range outputs {
				cmd := spawn(t, s, "contender", path, fmt.Sprint("p", i))
				cmd.Stdout = &outputs[i]
				all.Go(func() {
					if err := cmd.Run(); err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				})
			}
			all.Wait()
			checkContention(t, in, outputs[0].String()+outputs[1].String())
		})
	}
}

func checkContention(t *testing.T, in *rheo.Instance, output string) {
	t.Helper()
	acked := make(map[string]int)
	for line := range strings.Lines(output) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "acked "); ok {
			acked[id]++
		} else {
			t.Log(strings.TrimSpace(line))
		}
	}
	leases, err := in.Fetch(t.Context(), sharedStream, sharedGroup, rheo.FetchOptions{Max: rheo.MaxBatch})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		acked[l.ID]++
	}
	want := 0
	for n := range rounds {
		want += 2 * contenders * (1 + n%3)
	}
	if len(acked) != want {
		t.Errorf("%d events were acked or left over, want %d", len(acked), want)
	}
	for id, n := range acked {
		if n > 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if sequences := gapless(t, in); len(sequences) != want {
		t.Errorf("the log has %d events, want %d", len(sequences), want)
	}
}

// gapless reads the whole log and returns where each ID is.
func gapless(t *testing.T, in *rheo.Instance) map[string][2]int64 {
	t.Helper()
	info, err := in.StreamInfo(t.Context(), sharedStream)
	if err != nil {
		t.Fatal(err)
	}
	places := make(map[string][2]int64)
	for p := range info.Partitions {
		next := int64(1)
		for {
			events, err := in.Read(t.Context(), sharedStream, p, next-1, rheo.MaxBatch)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				if e.Sequence != next {
					t.Fatalf("partition %d has %d where %d should be", p, e.Sequence, next)
				}
				if _, twice := places[e.ID]; twice {
					t.Fatalf("%s is in the log twice", e.ID)
				}
				places[e.ID] = [2]int64{int64(p), e.Sequence}
				next++
			}
		}
		if info.HighWatermarks[p] != next-1 {
			t.Fatalf("partition %d ends at %d, its high watermark is %d", p, next-1, info.HighWatermarks[p])
		}
	}
	return places
}
