package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

const consumeHelp = `Takes events from the group, prints each as NDJSON, and acks it once it is
printed. Any number of consumers may share a group, and any of them may die: what
one held comes to another when its lease ends.

With --exec a shell runs CMD for each event instead, with the payload on its
standard input, and these variables in its environment:
  RHEO_ID  RHEO_STREAM  RHEO_GROUP  RHEO_PARTITION  RHEO_SEQUENCE  RHEO_TIMESTAMP
  RHEO_KEY  RHEO_TYPE  RHEO_METADATA (a JSON object)  RHEO_ATTEMPT  RHEO_LAST_REASON
Exit code 0 acks, 65 rejects (a dead letter at once), any other nacks (tried
again after --retry, which doubles, until the group's attempts are used up).

Without --until-empty or --count it goes on until Ctrl-C, which lets what has
begun finish and gives the rest back; a second one ends it at once.`

type consumeOptions struct {
	exec       string
	count      int
	untilEmpty bool
	group      rheo.GroupOptions
}

func (a *app) consumeCommand() *cobra.Command {
	var o consumeOptions
	cmd := a.command("consume STREAM GROUP [flags]", "Print a group's events and ack them, or run a command for each", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			o.group.Stream, o.group.Group = args[0], args[1]
			return a.withStore(ctx, func(inst *rheo.Instance) error { return a.consume(ctx, inst, o) })
		})
	cmd.Long = consumeHelp
	cmd.Example = `  rheo consume quakes archive --until-empty > archive.ndjson
  rheo consume quakes alarms --concurrency 4 --exec 'curl -sf --data-binary @- https://example.com/hook'`
	flags := cmd.Flags()
	flags.StringVar(&o.exec, "exec", "", "run this command for each event")
	flags.BoolVar(&o.untilEmpty, "until-empty", false, "end when the group is done with all events and nothing is in flight")
	addInt(cmd, &o.count, "count", 0, 1, math.MaxInt, "end after so many events")
	addInt(cmd, &o.group.Concurrency, "concurrency", 1, 1, rheo.MaxBatch, "how many events to work on at once")
	addInt(cmd, &o.group.MaxDemand, "max-demand", 0, 1, 2*rheo.MaxBatch, "how many to hold leases on (default 100; with --exec twice the concurrency)")
	flags.Var(durationFlag{&o.group.LeaseDuration, rheo.MinLeaseDuration, rheo.MaxLeaseDuration}, "lease",
		"how long a lease lasts unless it is renewed, as it is while we run (default 30s)")
	flags.Var(durationFlag{&o.group.PollInterval, time.Millisecond, 24 * time.Hour}, "poll", "how often to look for events where the store does not tell (default 1s)")
	flags.Var(durationFlag{&o.group.RetryBackoff.Min, time.Millisecond, 24 * time.Hour}, "retry", "how long an event waits after its first nack (default 1s)")
	addPartitions(cmd, &o.group.Partitions, "take from these partitions only (default all the group reads)")
	flags.StringVar(&o.group.ConsumerID, "consumer-id", "", "who holds the leases, for people to see (default host, process, random)")
	return cmd
}

// Why a consumer has ended by itself.
var (
	errCounted = errors.New("the count is reached")
	errEmpty   = errors.New("the group is done with all events")
)

// consumer is one run of consume.
type consumer struct {
	app    *app
	o      consumeOptions
	finish context.CancelCauseFunc // begins the drain

	taken atomic.Int64

	acked, nacked, rejected, again atomic.Int64
}

func (a *app) consume(ctx context.Context, inst *rheo.Instance, o consumeOptions) error {
	ctx, finish := context.WithCancelCause(ctx)
	defer finish(nil)
	c := &consumer{app: a, o: o.withDefaults(), finish: finish}
	c.o.group.Handler = c.handle
	group, err := rheo.NewGroup(inst, c.o.group)
	if err != nil {
		return err
	}
	defer keepPipeErrors()()
	var watch sync.WaitGroup
	if o.untilEmpty {
		watch.Go(func() {
			whenEmpty(ctx, inst, o.group.Stream, o.group.Group, o.group.Partitions, func() { finish(errEmpty) })
		})
	}
	stopNote := context.AfterFunc(ctx, func() { c.noteDrain(ctx, group) })
	err = group.Run(ctx)
	stopNote()
	finish(nil)
	watch.Wait()
	if err != nil {
		return err
	}
	c.summary()
	return c.verdict(context.Cause(ctx))
}

func (o consumeOptions) withDefaults() consumeOptions {
	g := &o.group
	if g.MaxDemand == 0 {
		g.MaxDemand = max(rheo.DefaultMaxDemand, g.Concurrency)
		if o.exec != "" {
			g.MaxDemand = 2 * g.Concurrency
		}
		if o.count > 0 {
			g.MaxDemand = max(min(g.MaxDemand, o.count), g.Concurrency)
		}
	}
	if g.RetryBackoff.Min > 0 {
		g.RetryBackoff.Max = max(g.RetryBackoff.Min, time.Minute)
	}
	// A second Ctrl-C is what ends a command that does not end.
	const noEnd = 365 * 24 * time.Hour
	g.DrainTimeout = noEnd
	return o
}

// handle handles one delivery.
func (c *consumer) handle(ctx context.Context, d *rheo.Delivery) error {
	switch n := c.taken.Add(1); {
	case c.o.count > 0 && n > int64(c.o.count):
		return rheo.Release(errCounted)
	case n == int64(c.o.count):
		c.finish(errCounted)
	}
	if d.Attempt > 1 {
		c.again.Add(1)
	}
	if c.o.exec != "" {
		return c.settled(c.execute(ctx, d))
	}
	return c.print(d)
}

// print prints the event. It is handled when it is out.
func (c *consumer) print(d *rheo.Delivery) error {
	var b bytes.Buffer
	if err := writeJSON(&b, withMetadata(d.Event)); err != nil {
		return c.settled(err)
	}
	if _, err := c.app.stdout.Write(b.Bytes()); err != nil {
		c.finish(outputError(err))
		return rheo.Release(err)
	}
	return c.settled(nil)
}

// settled counts an outcome.
func (c *consumer) settled(err error) error {
	switch {
	case err == nil:
		c.acked.Add(1)
	case errors.Is(err, errRejected):
		c.rejected.Add(1)
	default:
		c.nacked.Add(1)
	}
	return err
}

// whenEmpty calls done once a group has nothing left to do in the partitions, or
// returns when ctx ends. What another consumer holds is something left: it may
// yet come back.
func whenEmpty(ctx context.Context, inst *rheo.Instance, stream, group string, partitions []int, done func()) {
	const interval = 25 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		// Where the store is away, the group's runtime waits and warns; where the
		// group is not there, it says so.
		info, err := inst.GroupInfo(ctx, stream, group)
		if err == nil && !slices.ContainsFunc(info.Partitions, func(p rheo.PartitionInfo) bool {
			asked := len(partitions) == 0 || slices.Contains(partitions, p.Partition)
			return asked && (p.Lag > 0 || p.InFlight > 0)
		}) {
			done()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// noteDrain tells a person who has pressed Ctrl-C what is awaited.
func (c *consumer) noteDrain(ctx context.Context, group *rheo.Group) {
	if n := group.InFlight(); n > 0 && errors.Is(context.Cause(ctx), errInterrupted) && c.o.exec != "" {
		fmt.Fprintf(c.app.stderr, "finishing what has begun (%s held); Ctrl-C again ends at once\n", plural(n, "event"))
	}
}

func (c *consumer) summary() {
	acked, nacked, rejected := c.acked.Load(), c.nacked.Load(), c.rejected.Load()
	fmt.Fprintf(c.app.stderr, "handled %s: %s acked, %s nacked, %s rejected", plural(acked+nacked+rejected, "event"),
		number(acked), number(nacked), number(rejected))
	if again := c.again.Load(); again > 0 {
		fmt.Fprintf(c.app.stderr, "; %s had been handed out before", number(again))
	}
	fmt.Fprintln(c.app.stderr)
}

// verdict says whether what ended the consumer is a failure.
func (c *consumer) verdict(cause error) error {
	switch {
	case errors.Is(cause, errCounted), errors.Is(cause, errEmpty):
		return nil
	case errors.Is(cause, errInterrupted), errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		if c.o.untilEmpty || c.o.count > 0 {
			return fmt.Errorf("%w before it was done; what is left is for the next consumer", cause)
		}
		return nil
	}
	return cause
}

// keepPipeErrors makes a write to a pipe that nobody reads any more an error,
// so that leases are given back, and not the end of the process.
func keepPipeErrors() (stop func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}
