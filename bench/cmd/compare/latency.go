package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/rheo-go/rheo/bench"
)

// compareLatency measures the subjects in turn, round by round, and prints the
// median of what the rounds found.
func compareLatency(ctx context.Context, o options, out, progress io.Writer) error {
	found := make([][]bench.Latency, len(o.subjects))
	for round := range o.rounds {
		for i, subject := range o.subjects {
			fmt.Fprintf(progress, "latency, round %d of %d: %s\n", round+1, o.rounds, subject.Name())
			latency, err := bench.MeasureLatency(ctx, subject, o.pace)
			if err != nil {
				return err
			}
			found[i] = append(found[i], latency)
		}
	}
	fmt.Fprintf(out, "\nlatency from append to handler, %d single events at %d a second; median of %d\n",
		o.pace.Events, o.pace.PerSecond, o.rounds)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "subject\tconfirms\tp50\tp99\tmax\tappended late by\t")
	for i, subject := range o.subjects {
		fmt.Fprintf(table, "%s\t%s\t%v\t%v\t%v\t%v\t\n", subject.Name(), subject.Confirms(),
			middleLatency(found[i], func(l bench.Latency) time.Duration { return l.P50 }),
			middleLatency(found[i], func(l bench.Latency) time.Duration { return l.P99 }),
			middleLatency(found[i], func(l bench.Latency) time.Duration { return l.Max }),
			middleLatency(found[i], func(l bench.Latency) time.Duration { return l.Late }))
	}
	return table.Flush()
}

func middleLatency(rounds []bench.Latency, figure func(bench.Latency) time.Duration) time.Duration {
	values := make([]float64, len(rounds))
	for i, l := range rounds {
		values[i] = float64(figure(l))
	}
	return time.Duration(middle(values)).Round(10 * time.Microsecond)
}
