package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo/bench"
)

var errUsage = errors.New("usage")

type options struct {
	workload bench.Workload // but for Callers
	callers  []int
	rounds   int
	latency  bool // instead of throughput
	pace     bench.Pace
	subjects []bench.Subject
}

func parse(args []string, output io.Writer, postgres, redis bench.Server) (options, error) {
	var o options
	all := sets(postgres, redis)
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.IntVar(&o.workload.Events, "events", 50_000, "events of one measurement, at most 1,000,000; of latency, at most 10,000")
	flags.IntVar(&o.workload.Batch, "batch", 100, "events of one append, and at most of one fetch")
	flags.DurationVar(&o.workload.Timeout, "timeout", 5*time.Second, "limit of one measurement")
	flags.BoolVar(&o.workload.Backlog, "backlog", false, "consume only when all is appended (not with gochannel)")
	flags.IntVar(&o.workload.History, "history", 0, "events that have been through before each measurement, at most 1,000,000")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each subject is measured")
	flags.IntVar(&o.pace.PerSecond, "latency", 0, "measure the latency from append to handler at this rate, such as 100 a second, instead")
	callers := flags.String("callers", "1,8", "goroutines that append, and as many that consume; several run one after another")
	only := flags.String("only", inProcess,
		"the subjects to measure, with commas between: "+names(concat(all))+"; or sets of them: "+setNames(all))
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return options{}, err
		}
		return options{}, errUsage // flag has said what
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	if o.rounds < 1 {
		return options{}, fmt.Errorf("%w: --rounds must be at least 1", errUsage)
	}
	o.latency = o.pace.PerSecond != 0
	o.pace.Events = min(o.workload.Events, 10*o.pace.PerSecond) // ten seconds
	var err error
	if o.callers, err = parseCallers(*callers); err != nil {
		return options{}, err
	}
	o.subjects, err = choose(all, *only)
	return o, err
}

func parseCallers(list string) ([]int, error) {
	var callers []int
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%w: --callers: %q is not a number of callers", errUsage, field)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

// set is some of the subjects, under a name.
type set struct {
	name     string
	subjects []bench.Subject
}

const inProcess = "in-process"

func sets(postgres, redis bench.Server) []set {
	return []set{
		{inProcess, bench.Subjects()},
		{"sqlite", bench.SQLiteSubjects()},
		{"postgres", bench.PostgresSubjects(postgres)},
		{"redis", bench.RedisSubjects(redis)},
	}
}

func concat(sets []set) []bench.Subject {
	var all []bench.Subject
	for _, s := range sets {
		all = append(all, s.subjects...)
	}
	return all
}

// choose returns the subjects that the list names, by themselves or by their set,
// in their own order.
func choose(sets []set, list string) ([]bench.Subject, error) {
	wanted := strings.Split(list, ",")
	found := make(map[string]bool)
	var chosen []bench.Subject
	for _, set := range sets {
		found[set.name] = true
		for _, s := range set.subjects {
			found[s.Name()] = true
			if slices.Contains(wanted, set.name) || slices.Contains(wanted, s.Name()) {
				chosen = append(chosen, s)
			}
		}
	}
	for _, name := range wanted {
		if !found[name] {
			return nil, fmt.Errorf("%w: --only: no subject is named %q; there are %s, and the sets %s",
				errUsage, name, names(concat(sets)), setNames(sets))
		}
	}
	return chosen, nil
}

func names(subjects []bench.Subject) string {
	var all []string
	for _, s := range subjects {
		all = append(all, s.Name())
	}
	return strings.Join(all, ", ")
}

func setNames(sets []set) string {
	var all []string
	for _, s := range sets {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}
