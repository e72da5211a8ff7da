package sqlitetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// BenchmarkBeside takes turns between two ways to append, read and finish 100
// events, so that what else the machine does slows both alike, and reports how
// fast the second is for each event of the first.
func BenchmarkBeside(b *testing.B) {
	for _, s := range benchmarked {
		b.Run("bare-and-rheo/"+s.name, func(b *testing.B) {
			r := newBare(b, s)
			beside(b, func(ctx context.Context) error {
				if err := r.append(ctx); err != nil {
					return err
				}
				return r.consume(ctx)
			}, newHistory(b, s, 0).cycle)
		})
		b.Run("10k-and-1M/"+s.name, func(b *testing.B) {
			beside(b, newHistory(b, s, 10_000).cycle, newHistory(b, s, 1_000_000).cycle)
		})
	}
}

func beside(b *testing.B, first, second func(context.Context) error) {
	b.Helper()
	var took [2]time.Duration
	b.ResetTimer()
	for n := 0; n < b.N; n += bareBatch {
		for i, f := range []func(context.Context) error{first, second} {
			start := time.Now()
			if err := f(b.Context()); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(start)
		}
	}
	b.ReportMetric(float64(b.N)/took[0].Seconds(), "first-events/s")
	b.ReportMetric(float64(b.N)/took[1].Seconds(), "second-events/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
}

// history is a store whose log has events that its group has done.
type history struct {
	*rheo.Instance
	payload []byte
}

func newHistory(b *testing.B, s setting, n int) *history {
	b.Helper()
	in, err := rheo.New(newBackend(b, s.open(b, file(b)), nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close() })
	h := &history{in, []byte(newPayload())}
	ctx := b.Context()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(in.EnsureSchema(ctx))
	must(in.CreateStream(ctx, "s", rheo.StreamConfig{}))
	for done := 0; done < n; done += 1000 {
		must(h.add(ctx, 1000))
	}
	must(in.CreateGroup(ctx, "s", "g", rheo.GroupConfig{Start: rheo.StartEnd()}))
	return h
}

func (h *history) add(ctx context.Context, n int) error {
	events := make([]rheo.Event, n)
	for i := range events {
		events[i] = rheo.Event{Type: "bench", Payload: h.payload}
	}
	_, err := h.Append(ctx, "s", events...)
	return err
}

func (h *history) cycle(ctx context.Context) error {
	if err := h.add(ctx, bareBatch); err != nil {
		return err
	}
	leases, err := h.Fetch(ctx, "s", "g", rheo.FetchOptions{Max: bareBatch})
	if err != nil {
		return err
	}
	if len(leases) != bareBatch {
		return fmt.Errorf("fetched %d events of %d", len(leases), bareBatch)
	}
	return h.Ack(ctx, leases...)
}
