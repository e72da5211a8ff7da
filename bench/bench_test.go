package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkAppend measures appending alone; one op is one event.
//
//	go test -bench 'Append/bbolt' .
func BenchmarkAppend(b *testing.B) { benchmarkSubjects(b, MeasureAppend) }

// BenchmarkCycle measures append, delivery and settlement; one op is one event.
func BenchmarkCycle(b *testing.B) { benchmarkSubjects(b, MeasureCycle) }

type measurement func(context.Context, Subject, Workload) (Result, error)

func benchmarkSubjects(b *testing.B, measure measurement) {
	b.Helper()
	for _, subject := range testedSubjects(b) {
		for _, callers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/batch=100/callers=%d", subject.Name(), callers), func(b *testing.B) {
				benchmark(b, measure, subject, Workload{Batch: 100, Callers: callers})
			})
		}
	}
}

// benchmark runs b.N events, made up to whole batches. The framework's own
// figures would include opening and closing, so they are replaced.
func benchmark(b *testing.B, measure measurement, subject Subject, w Workload) {
	b.Helper()
	whole := (b.N + w.Batch - 1) / w.Batch * w.Batch
	w.Events = min(whole, maxEvents)
	w.Timeout = 10 * time.Second
	result, err := measure(b.Context(), subject, w)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(result.PerSecond(), "events/s")
	b.ReportMetric(float64(result.Elapsed.Nanoseconds())/float64(result.Events), "ns/op")
	b.ReportMetric(float64(result.P50.Microseconds()), "p50-µs/append")
	b.ReportMetric(float64(result.P99.Microseconds()), "p99-µs/append")
	b.ReportMetric(result.Allocs, "allocs/event")
}
