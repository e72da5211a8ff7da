package embedded_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
)

// The load of the kill test: a process that appends and consumes from several
// goroutines, and reports each thing over its output when it is confirmed, before
// it goes on. Somebody kills it, or it does so itself: when it is handed a poison
// event.
//
// A report is a line of words:
//
//	ready
//	try W N COUNT                writer W is about to append its events from N on
//	ok W N COUNT                 and has
//	lease GROUP P SEQ ATTEMPT    handed out
//	settle GROUP P SEQ OUTCOME   about to be settled
//	done GROUP P SEQ OUTCOME     and was; the outcome is ack, nack or dead
const (
	killPartitions = 3   // that are used
	allPartitions  = 512 // so many that IDs enter the index early
	killWriters    = 3
	killAttempts   = 4
	poisonType     = "poison"
)

func init() { children["load"] = load }

type loader struct {
	in     *rheo.Instance
	random uint64
	mu     sync.Mutex
}

func load() error {
	go func() { // the parent's end is this process' end
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	b, err := embedded.Open(childSetting("DIR"), nil)
	if err != nil {
		return err
	}
	b.LimitClaims(4 << 10)
	in, err := rheo.New(b, nil)
	if err != nil {
		return err
	}
	l := &loader{in: in, random: uint64(childNumber("SEED"))}
	l.report("ready")
	ctx := context.Background()
	failed := make(chan error)
	start := func(n uint64, f func(context.Context, *rand.Rand) error) {
		go func() { failed <- f(ctx, rand.New(rand.NewPCG(l.random, n))) }()
	}
	for w := range killWriters {
		start(uint64(w), func(ctx context.Context, r *rand.Rand) error { return l.write(ctx, r, w) })
	}
	for i, g := range []string{"a", "a", "o", "o", "r"} {
		start(uint64(100+i), func(ctx context.Context, r *rand.Rand) error { return l.consume(ctx, r, g) })
	}
	start(200, l.replay)
	return <-failed
}

func (l *loader) report(lines ...string) {
	l.mu.Lock()
	_, err := os.Stdout.WriteString(strings.Join(lines, "\n") + "\n")
	l.mu.Unlock()
	if err != nil {
		os.Exit(3)
	}
}

// eventOf is the n-th event of a writer. The IDs are in no order.
func eventOf(writer, n int) rheo.Event {
	return rheo.Event{
		ID:        fmt.Sprintf("%08x-%d-%d", uint32(n)*2654435761, writer, n),
		Partition: (writer + n) % killPartitions, Pinned: true,
		Payload: fmt.Appendf(nil, `{"writer":%d,"n":%d,"text":%q}`, writer, n, strings.Repeat("x", n%300)),
	}
}

func eventsOf(writer, n, count int) []rheo.Event {
	events := make([]rheo.Event, count)
	for i := range events {
		events[i] = eventOf(writer, n+i)
	}
	return events
}

// write repeats the append that may have been under way at the last death, and goes
// on from there.
func (l *loader) write(ctx context.Context, r *rand.Rand, writer int) error {
	var n, count int
	if _, err := fmt.Sscan(childSetting(fmt.Sprintf("WRITER%d", writer)), &n, &count); err != nil {
		return err
	}
	poison := writer == 0 && childSetting("POISON") != ""
	for ; ; n, count = n+count, 1+r.IntN(20) {
		events := eventsOf(writer, n, count)
		if poison && n > 0 {
			poison = false
			_, err := l.in.Append(ctx, "s", rheo.Event{ID: childSetting("POISON"), Type: poisonType, Partition: r.IntN(killPartitions), Pinned: true})
			if err != nil {
				return err
			}
		}
		l.report(fmt.Sprintf("try %d %d %d", writer, n, count))
		if _, err := l.in.Append(ctx, "s", events...); err != nil {
			return err
		}
		l.report(fmt.Sprintf("ok %d %d %d", writer, n, count))
		if count > 0 && r.IntN(8) == 0 {
			results, err := l.in.Append(ctx, "s", events...)
			if err != nil || !results[0].Duplicate || !results[count-1].Duplicate {
				return fmt.Errorf("appended again: %+v, %w", results, err)
			}
		}
	}
}

func (l *loader) consume(ctx context.Context, r *rand.Rand, group string) error {
	const pause = 2 * time.Millisecond
	for {
		leases, err := l.in.Fetch(ctx, "s", group, rheo.FetchOptions{Max: 1 + r.IntN(20), LeaseDuration: time.Minute})
		if err != nil {
			return err
		}
		if len(leases) == 0 {
			<-time.After(pause)
			continue
		}
		lines := make([]string, len(leases))
		for i, lease := range leases {
			lines[i] = fmt.Sprintf("lease %s %d %d %d", group, lease.Partition, lease.Sequence, lease.Attempt)
		}
		l.report(lines...)
		for _, lease := range leases {
			if lease.Type == poisonType && group == "a" {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {}
			}
		}
		if err := l.settle(ctx, r, group, leases); err != nil {
			return err
		}
	}
}

func (l *loader) settle(ctx context.Context, r *rand.Rand, group string, leases []*rheo.Lease) error {
	var settlements []rheo.Settlement
	var what []string
	for _, lease := range leases {
		s, outcome := rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck}, "ack"
		switch n := r.IntN(100); {
		case n < 4 && group != "o":
			continue // held to the end
		case n < 16 && lease.Attempt < killAttempts:
			s.Outcome, outcome = rheo.OutcomeNack, "nack"
		case n < 16:
			s.Outcome, outcome = rheo.OutcomeNack, "dead"
		case n < 20:
			s.Outcome, outcome = rheo.OutcomeReject, "dead"
		}
		settlements = append(settlements, s)
		what = append(what, fmt.Sprintf("%s %d %d %s", group, lease.Partition, lease.Sequence, outcome))
	}
	if len(settlements) == 0 {
		return nil
	}
	l.report("settle " + strings.Join(what, "\nsettle "))
	results, err := l.in.Settle(ctx, settlements...)
	if err != nil {
		return err
	}
	for i, err := range results {
		if err != nil && group != "r" { // there a replay may have fenced it
			return fmt.Errorf("%s: %w", what[i], err)
		}
	}
	l.report("done " + strings.Join(what, "\ndone "))
	return nil
}

// replay replays and resets the group r, now and then.
func (l *loader) replay(ctx context.Context, r *rand.Rand) error {
	for {
		<-time.After(time.Duration(r.IntN(30)) * time.Millisecond)
		if r.IntN(3) > 0 {
			if _, err := l.in.Replay(ctx, "s", "r", rheo.ReplaySelection{FromSequence: 1 + r.Int64N(2000)}); err != nil {
				return err
			}
			continue
		}
		start := []rheo.Start{rheo.StartBeginning(), rheo.StartEnd(), rheo.StartAfter(r.Int64N(2000))}[r.IntN(3)]
		if err := l.in.ResetGroup(ctx, "s", "r", rheo.ResetOptions{Confirm: true, Start: &start}); err != nil {
			return err
		}
	}
}
