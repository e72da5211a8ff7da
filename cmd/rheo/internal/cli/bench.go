package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

const benchHelp = `Measures, without --store, a store in memory and one in a temporary directory.
With --store it measures that one, and leaves its streams there: a log forgets
nothing. RHEO_STORE is not looked at. The rows:

  append        batches of --batch events, by --callers at once, to a new stream
  fetch+settle  fetch and ack what is there, a batch at a time
  cycle         append and, at the same time, handle by a group with a handler that
                does nothing, and ack; the latency is from append to handler, most
                of it spent in the backlog that callers without pause make
  latency       the same, one event at a time: the next when the last is handled

Each row ends after --events events or --time, whatever comes first. The
allocations are those of the whole process, by event.`

type benchOptions struct {
	events, partitions, payload int
	concurrency, maxDemand      int
	batches, callers            []int
	limit                       time.Duration
	largestBatch                int
	payloadJSON                 []byte
	stream                      string // what the names of streams begin with
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := a.command("bench [flags]", "Measure how fast a store is", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.bench(ctx, o)
	})
	cmd.Long = benchHelp
	addInt(cmd, &o.events, "events", 100_000, 1, 1_000_000_000, "events of each row, at most")
	addInts(cmd, &o.batches, "batch", []int{1, 100}, 1, rheo.MaxBatch, "events of one append; other rows take the largest")
	addInts(cmd, &o.callers, "callers", []int{1, 8, 64}, 1, 10_000, "how many append or fetch at once")
	addInt(cmd, &o.partitions, "partitions", 4, 1, rheo.MaxPartitions, "partitions of each stream")
	addInt(cmd, &o.payload, "payload", 200, 2, rheo.MaxPayloadDefault, "bytes of each payload")
	addInt(cmd, &o.concurrency, "concurrency", rheo.DefaultConcurrency, 1, rheo.MaxBatch, "handlers of the group")
	addInt(cmd, &o.maxDemand, "max-demand", 1000, 1, 2*rheo.MaxBatch, "leases the group holds")
	o.limit = time.Second
	cmd.Flags().Var(durationFlag{&o.limit, 10 * time.Millisecond, time.Hour}, "time", "duration of each row, at most")
	return cmd
}

// benchReport is what --json prints.
type benchReport struct {
	Go         string        `json:"go"`
	System     string        `json:"system"`
	CPUs       int           `json:"cpus"`
	Partitions int           `json:"partitions"`
	Payload    int           `json:"payload_bytes"`
	Results    []benchResult `json:"results"`
}

type benchResult struct {
	Store           string   `json:"store"`
	Operation       string   `json:"operation"`
	Batch           int      `json:"batch"`
	Callers         int      `json:"callers"`
	Events          int64    `json:"events"`
	Seconds         float64  `json:"seconds"`
	EventsPerSecond float64  `json:"events_per_second"`
	AllocsPerEvent  float64  `json:"allocs_per_event"`
	P50Milliseconds *float64 `json:"p50_ms,omitempty"`
	P99Milliseconds *float64 `json:"p99_ms,omitempty"`
}

func (a *app) bench(ctx context.Context, o benchOptions) error {
	o.largestBatch = slices.Max(o.batches)
	o.payloadJSON = []byte(`"` + strings.Repeat("x", o.payload-2) + `"`)
	o.maxDemand = max(o.maxDemand, o.concurrency)
	o.stream = "bench-" + time.Now().UTC().Format("20060102-150405.000")
	report := benchReport{
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Partitions: o.partitions, Payload: o.payload, Results: []benchResult{},
	}
	if !a.json {
		if err := a.say(nil, "%s, %s, %s; %s, payloads of %s\n%s", report.Go, report.System, plural(report.CPUs, "CPU"),
			plural(o.partitions, "partition"), plural(o.payload, "byte"), benchHeading()); err != nil {
			return err
		}
	}
	each := func(r benchResult) error {
		report.Results = append(report.Results, r)
		if a.json {
			return nil
		}
		return a.say(nil, "%s", r.row())
	}
	if err := a.benchStores(ctx, o, each); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(report)
	}
	return nil
}

func (a *app) benchStores(ctx context.Context, o benchOptions, each func(benchResult) error) error {
	if a.storeFlag != "" {
		return a.benchStore(ctx, a.storeFlag, o, each)
	}
	if err := a.benchStore(ctx, "memory:", o, each); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rheo-bench-")
	if err != nil {
		return err
	}
	return errors.Join(a.benchStore(ctx, "embedded:"+dir, o, each), os.RemoveAll(dir))
}

// benchStore measures every row of one store.
func (a *app) benchStore(ctx context.Context, url string, o benchOptions, each func(benchResult) error) (err error) {
	inst, err := a.open(ctx, url, making)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	scheme, _, _ := strings.Cut(url, ":")
	for _, row := range o.rows() {
		bar := a.progress(fmt.Sprintf("%s: %s, batch %d, callers %d", scheme, row.operation, row.batch, row.callers), 0, nil)
		m := &measurement{inst: inst, o: &o, benchRow: row}
		r, err := m.measure(ctx)
		bar.stop()
		if err != nil {
			return err
		}
		r.Store = scheme
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

type benchRow struct {
	operation      string
	batch, callers int
	run            func(*measurement, context.Context) error
}

func (o *benchOptions) rows() []benchRow {
	var rows []benchRow
	for _, batch := range o.batches {
		for _, callers := range o.callers {
			rows = append(rows, benchRow{"append", batch, callers, (*measurement).append})
		}
	}
	for _, callers := range o.callers {
		rows = append(rows, benchRow{"fetch+settle", o.largestBatch, callers, (*measurement).fetchAndSettle})
	}
	for _, callers := range o.callers {
		rows = append(rows, benchRow{"cycle", o.largestBatch, callers, (*measurement).cycle})
	}
	return append(rows, benchRow{"latency", 1, 1, (*measurement).latency})
}

const benchFormat = "%-9s %-13s %6s %8s %10s %9s %12s %8s %10s %10s"

func benchHeading() string {
	return fmt.Sprintf(benchFormat, "STORE", "OPERATION", "BATCH", "CALLERS", "EVENTS", "SECONDS", "EVENTS/S", "ALLOCS", "P50", "P99")
}

func (r *benchResult) row() string {
	return strings.TrimRight(fmt.Sprintf(benchFormat, r.Store, r.Operation, fmt.Sprint(r.Batch), fmt.Sprint(r.Callers), number(r.Events),
		fmt.Sprintf("%.3f", r.Seconds), number(int64(r.EventsPerSecond)), fmt.Sprintf("%.1f", r.AllocsPerEvent),
		milliseconds(r.P50Milliseconds), milliseconds(r.P99Milliseconds)), " ")
}

func milliseconds(ms *float64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf("%.3f ms", *ms)
}
