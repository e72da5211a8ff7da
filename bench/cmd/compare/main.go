// Command compare measures the subjects of package bench side by side and
// prints their figures and ratios.
//
//	go run ./cmd/compare --events 50000 --batch 100 --callers 1,8 --only bbolt,jetstream
//	go run ./cmd/compare --only postgres
//	go run ./cmd/compare --only postgres --latency 100
//
// Subjects take turns, round by round, so that what else the machine does hits
// them alike. Of each figure the median over the rounds is printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/rheo-go/rheo/bench"
	"github.com/rheo-go/rheo/internal/testservers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	testservers.Shutdown()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures what the arguments ask for: the tables go to out, progress to
// progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress, postgres(), redis())
	if err != nil {
		return err
	}
	if o.latency {
		return compareLatency(ctx, o, out, progress)
	}
	for _, callers := range o.callers {
		w := o.workload
		w.Callers = callers
		figures, err := measureAll(ctx, o.subjects, w, o.rounds, progress)
		if err != nil {
			return err
		}
		if err := printTable(out, w, o.rounds, figures); err != nil {
			return err
		}
	}
	return nil
}

// figures are one subject's results, one of each kind a round.
type figures struct {
	subject bench.Subject
	appends []bench.Result
	cycles  []bench.Result
}

func measureAll(
	ctx context.Context, subjects []bench.Subject, w bench.Workload, rounds int, progress io.Writer,
) ([]figures, error) {
	all := make([]figures, len(subjects))
	for round := range rounds {
		for i, subject := range subjects {
			fmt.Fprintf(progress, "callers %d, round %d of %d: %s\n", w.Callers, round+1, rounds, subject.Name())
			appended, err := bench.MeasureAppend(ctx, subject, w)
			if err != nil {
				return nil, err
			}
			cycled, err := bench.MeasureCycle(ctx, subject, w)
			if err != nil {
				return nil, err
			}
			all[i].subject = subject
			all[i].appends = append(all[i].appends, appended)
			all[i].cycles = append(all[i].cycles, cycled)
		}
	}
	return all, nil
}
