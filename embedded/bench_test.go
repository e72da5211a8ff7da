package embedded_test

import (
	"fmt"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/embedded"
)

func BenchmarkEmbedded(b *testing.B) {
	backendtest.Benchmark(b, func(b *testing.B) rheo.Backend {
		b.Helper()
		store, err := embedded.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		return store
	})
}

func openBench(b *testing.B) *rheo.Instance {
	b.Helper()
	store, err := embedded.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	in, err := rheo.New(store, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close() })
	if err := in.CreateStream(b.Context(), "s", rheo.StreamConfig{}); err != nil {
		b.Fatal(err)
	}
	return in
}

func fillBench(b *testing.B, in *rheo.Instance, n int) {
	b.Helper()
	const most = 10_000
	payload := fmt.Appendf(nil, "%0200d", 0)
	payload[0], payload[len(payload)-1] = '"', '"'
	for left := n; left > 0; left -= most {
		events := make([]rheo.Event, min(left, most))
		for i := range events {
			events[i] = rheo.Event{Type: "bench", Payload: payload}
		}
		if _, err := in.Append(b.Context(), "s", events...); err != nil {
			b.Fatal(err)
		}
	}
}

// takeBench fetches and settles n events of the group, a hundred at a time.
func takeBench(b *testing.B, in *rheo.Instance, group string, n int) {
	b.Helper()
	for n > 0 {
		leases, err := in.Fetch(b.Context(), "s", group, rheo.FetchOptions{Max: min(n, 100)})
		if err != nil {
			b.Fatal(err)
		}
		if len(leases) == 0 {
			b.Fatal("nothing to fetch")
		}
		if err := in.Ack(b.Context(), leases...); err != nil {
			b.Fatal(err)
		}
		n -= len(leases)
	}
}

// BenchmarkHistory measures fetch and settle behind a long log. Ten million events
// need 3 GB and a minute or two to write; -short leaves them out.
func BenchmarkHistory(b *testing.B) {
	for _, history := range []int{10_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("events=%d", history), func(b *testing.B) {
			if history > 1_000_000 && testing.Short() {
				b.Skip("too long")
			}
			in := openBench(b)
			fillBench(b, in, history)
			if err := in.CreateGroup(b.Context(), "s", "g", rheo.GroupConfig{Start: rheo.StartEnd()}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() { // an iteration is a thousand events
				b.StopTimer()
				fillBench(b, in, 1000)
				b.StartTimer()
				takeBench(b, in, "g", 1000)
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkGroups measures fetch and settle in one group after the other.
func BenchmarkGroups(b *testing.B) {
	for _, groups := range []int{1, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			in := openBench(b)
			for g := range groups {
				if err := in.CreateGroup(b.Context(), "s", fmt.Sprint(g), rheo.GroupConfig{}); err != nil {
					b.Fatal(err)
				}
			}
			const events = 1000
			fillBench(b, in, events)
			turn := 0
			for b.Loop() { // an iteration is a hundred events
				group := fmt.Sprint(turn % groups)
				if turn/groups*100%events == 0 && turn >= groups {
					b.StopTimer()
					if err := in.ResetGroup(b.Context(), "s", group, rheo.ResetOptions{Confirm: true}); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				takeBench(b, in, group, 100)
				turn++
			}
			b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "events/s")
		})
	}
}
