package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rheo-go/rheo/bench"
)

// printTable prints the figures of all subjects, and then how each compares
// with each.
func printTable(out io.Writer, w bench.Workload, rounds int, all []figures) error {
	fmt.Fprintf(out, "\n%d events in batches of %d, callers: %d; median of %d, events/s%s\n",
		w.Events, w.Batch, w.Callers, rounds, circumstances(w))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "subject\tconfirms\tappend\tmin–max\tp50\tp99\tallocs/event\tfull cycle\tmin–max\tallocs/event\tWAL B/event\t")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\t%v\t%.1f\t%s\t%s\t%.1f\t%s\t\n",
			f.subject.Name(), f.subject.Confirms(),
			rate(median(f.appends, bench.Result.PerSecond)), spread(f.appends),
			medianLatency(f.appends, func(r bench.Result) time.Duration { return r.P50 }),
			medianLatency(f.appends, func(r bench.Result) time.Duration { return r.P99 }),
			median(f.appends, func(r bench.Result) float64 { return r.Allocs }),
			rate(median(f.cycles, bench.Result.PerSecond)), spread(f.cycles),
			median(f.cycles, func(r bench.Result) float64 { return r.Allocs }),
			written(median(f.cycles, func(r bench.Result) float64 { return r.Log })))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(all) < 2 {
		return nil
	}
	fmt.Fprintln(out, "\nratios, line ÷ column: append / full cycle, median of the rounds' ratios")
	table = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\t")
	for _, base := range all {
		fmt.Fprintf(table, "%s\t", base.subject.Name())
	}
	fmt.Fprintln(table)
	for _, f := range all {
		fmt.Fprintf(table, "%s\t", f.subject.Name())
		for _, base := range all {
			fmt.Fprintf(table, "%s / %s\t", ratio(f.appends, base.appends), ratio(f.cycles, base.cycles))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func circumstances(w bench.Workload) string {
	var s string
	if w.History > 0 {
		s = fmt.Sprintf("; behind %d events of history", w.History)
	}
	if w.Backlog {
		s += "; cycles consume when all is appended"
	}
	return s
}

// written shows what the store has written ahead, if it tells.
func written(bytes float64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", bytes)
}

// median returns the median of one figure over the rounds.
func median(results []bench.Result, figure func(bench.Result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = figure(r)
	}
	return middle(values)
}

func medianLatency(results []bench.Result, figure func(bench.Result) time.Duration) time.Duration {
	ns := median(results, func(r bench.Result) float64 { return float64(figure(r)) })
	if d := time.Duration(ns); d >= 100*time.Microsecond {
		return d.Round(10 * time.Microsecond)
	}
	return time.Duration(ns).Round(100 * time.Nanosecond)
}

// ratio returns the median of the rounds' ratios: each round's two figures were
// taken under like conditions.
func ratio(of, to []bench.Result) string {
	values := make([]float64, len(of))
	for i := range of {
		values[i] = of[i].PerSecond() / to[i].PerSecond()
	}
	if r := middle(values); r < 10 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.0f", middle(values))
}

// spread returns the slowest and the fastest round; a star marks that a round
// ran out of time, which a slow subject may do.
func spread(results []bench.Result) string {
	low, high, star := results[0].PerSecond(), results[0].PerSecond(), ""
	for _, r := range results {
		low, high = min(low, r.PerSecond()), max(high, r.PerSecond())
		if r.Partial {
			star = "*"
		}
	}
	return rate(low) + "–" + rate(high) + star
}

// rate shows events per second to three digits.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 1e6:
		return fmt.Sprintf("%.2f M", perSecond/1e6)
	case perSecond >= 1e5:
		return fmt.Sprintf("%.0f k", perSecond/1e3)
	case perSecond >= 1e3:
		return fmt.Sprintf("%.1f k", perSecond/1e3)
	default:
		return fmt.Sprintf("%.0f", perSecond)
	}
}

// middle returns the median; of an even number, the mean of the middle two.
func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
