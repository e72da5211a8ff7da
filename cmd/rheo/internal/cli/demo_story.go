package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/cmd/rheo/demo"
)

const (
	demoStream   = "quakes"
	demoAttempts = 3
	demoLease    = time.Second
	killAfter    = 600 // events
)

func (t *tour) openStore(ctx context.Context) error {
	opener, _, err := t.app.opener(t.url, using)
	if err != nil {
		return err
	}
	if err := t.inst.CreateStream(ctx, demoStream, rheo.StreamConfig{Partitions: 4}); err != nil {
		return fmt.Errorf("%w; the tour needs a store without that stream", err)
	}
	where := "It lies in one directory, which is gone when the tour ends; to keep it and try\n" +
		"the commands yourself: rheo demo --store embedded:./quakes"
	if !t.fleeting {
		where = "The store stays when the tour ends, for you to try the commands."
	}
	fmt.Fprintln(t.app.stdout, "Rheo: event streams and durable consumers, inside your process. No server.")
	t.title("A store")
	t.tell("%s", where)
	t.command("export RHEO_STORE="+quote(t.app.redact(t.url)), opener.code+"; inst, err := rheo.New(backend, nil)")
	return nil
}

// fillStream appends the feed, twice.
func (t *tour) fillStream(ctx context.Context) error {
	t.title("A stream of events")
	t.tell("A stream is a log: events are added at its end, never changed, never taken out.\n" +
		"This one gets a real week of earthquakes (February 2018; source: U.S. Geological\n" +
		"Survey, public domain). Its 4 partitions share out the work; the key, here the\n" +
		"seismic network, picks the partition, so each network's events stay in order.")
	t.command("rheo stream create quakes --partitions 4\n"+
		"rheo append quakes quakes.ndjson --id id --key properties.net \\\n         --type properties.type --time properties.time",
		`inst.Append(ctx, "quakes", events...)`)
	first, elapsed, err := t.appendFeed(ctx)
	if err != nil {
		return err
	}
	info, err := t.inst.StreamInfo(ctx, demoStream)
	if err != nil {
		return err
	}
	t.result("%s appended in %s, each one on disk; the partitions hold %s.", plural(first.Appended, "event"), took(elapsed),
		strings.Trim(strings.ReplaceAll(fmt.Sprint(info.HighWatermarks), " ", ", "), "[]"))
	second, _, err := t.appendFeed(ctx)
	if err != nil {
		return err
	}
	t.result("The same file once more, as after a lost connection: %s appended, %s known by\n"+
		"their IDs. With IDs, repeating an append is always safe.", number(second.Appended), number(second.Duplicates))
	return nil
}

func (t *tour) appendFeed(ctx context.Context) (appendResult, time.Duration, error) {
	feed, err := demo.Feed()
	if err != nil {
		return appendResult{}, 0, err
	}
	began := time.Now()
	ap := &appender{app: t.app, inst: t.inst, stream: demoStream, batch: 100}
	for to, at := range map[*path]string{
		&ap.paths.id: "id", &ap.paths.key: "properties.net", &ap.paths.kind: "properties.type", &ap.paths.time: "properties.time",
	} {
		if err := to.Set(at); err != nil {
			return appendResult{}, 0, err
		}
	}
	in := &input{name: "the feed", reader: bytes.NewReader(feed), size: int64(len(feed))}
	err = ap.append(ctx, in)
	return ap.result, time.Since(began), err
}

// readTwice makes two groups and runs one.
func (t *tour) readTwice(ctx context.Context) error {
	t.title("Two readers, each at its own pace")
	t.tell("A consumer group is a reader with a memory kept in the store: which events it has\n" +
		"handled, which are being worked on, which failed. Groups do not notice each other.\n" +
		"\"archive\" copies everything; \"alarms\" will look for strong earthquakes.")
	t.command("rheo group create quakes archive\n"+
		fmt.Sprintf("rheo group create quakes alarms --max-attempts %d\n", demoAttempts)+
		"rheo consume quakes archive --until-empty",
		"rheo.NewGroup(inst, rheo.GroupOptions{Stream: …, Group: …, Handler: …})")
	if err := t.inst.CreateGroup(ctx, demoStream, "archive", rheo.GroupConfig{}); err != nil {
		return err
	}
	if err := t.inst.CreateGroup(ctx, demoStream, "alarms", rheo.GroupConfig{MaxAttempts: demoAttempts}); err != nil {
		return err
	}
	var handled atomic.Int64
	elapsed, err := t.consume(ctx, "archive", func(context.Context, *rheo.Delivery) error {
		handled.Add(1)
		return nil
	})
	if err != nil {
		return err
	}
	behind, err := t.lag(ctx, "archive", "alarms")
	if err != nil {
		return err
	}
	t.result("archive handled %s in %s and is %s behind; alarms is %s behind.", plural(handled.Load(), "event"), took(elapsed),
		number(behind[0]), number(behind[1]))
	return nil
}

func (t *tour) lag(ctx context.Context, groups ...string) ([]int64, error) {
	var behind []int64
	for _, group := range groups {
		lag, err := t.inst.Lag(ctx, demoStream, group)
		if err != nil {
			return nil, err
		}
		behind = append(behind, lag.Lag)
	}
	return behind, nil
}

// killConsumer kills a process that consumes, and opens the store again.
func (t *tour) killConsumer(ctx context.Context) error {
	t.title("A consumer is killed")
	t.tell("Another process works for alarms. It leases events: while a lease lasts, nobody\n"+
		"else gets them. After %d events it is killed, kill -9, with no chance to tidy up.", killAfter)
	t.command(fmt.Sprintf("rheo consume quakes alarms --lease %v &\nkill -9 $!", demoLease), "")
	if err := t.close(); err != nil { // the other process needs the directory
		return err
	}
	if err := t.runAndKill(ctx); err != nil {
		return err
	}
	var err error
	if t.inst, err = t.app.open(ctx, t.url, using); err != nil {
		return err
	}
	info, err := t.inst.GroupInfo(ctx, demoStream, "alarms")
	if err != nil {
		return err
	}
	t.result("It had printed %s. The store, opened again, knows that %s are not acked yet;\n"+
		"on %s of these it held leases when it died.", plural(len(t.printed), "event"), number(info.Lag()), number(info.InFlight()+info.Waiting()))
	return nil
}

// runAndKill runs `rheo consume` and kills it while it holds leases: it cannot
// print faster than its output is read.
func (t *tour) runAndKill(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "consume", demoStream, "alarms", "--lease", demoLease.String())
	cmd.Env = append(os.Environ(), "RHEO_STORE="+t.url) // a password in it is not for the list of processes
	cmd.Stderr = t.app.stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.printed = make(map[string]bool)
	lines := bufio.NewScanner(output)
	for n := 1; lines.Scan(); n++ {
		var e struct{ ID string }
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be cut off
			t.printed[e.ID] = true
		}
		if n == killAfter {
			err = cmd.Process.Kill()
		}
	}
	ended := cmd.Wait()
	var killed *exec.ExitError
	switch {
	case err != nil:
		return err
	case len(t.printed) < killAfter:
		return fmt.Errorf("the consumer ended after %s: %w", plural(len(t.printed), "event"), errors.Join(ended, lines.Err()))
	case ended != nil && !errors.As(ended, &killed):
		return ended
	}
	return ctx.Err()
}

// takeOver consumes what the killed process has left.
func (t *tour) takeOver(ctx context.Context) error {
	t.title("Another one takes over")
	t.tell("The leases of the dead process are void: in an embedded store at once, in a shared\n" +
		"one when their time is over. Their events are handed out again, and the store has counted: it\n" +
		"is their attempt 2. What was printed but not acked comes twice; nothing is lost.")
	t.command("rheo consume quakes alarms --until-empty", "")
	var strong, again, fresh atomic.Int64
	seen := make(chan string, 2048)
	elapsed, err := t.consume(ctx, "alarms", func(_ context.Context, d *rheo.Delivery) error {
		if d.Attempt > 1 {
			again.Add(1)
		} else {
			fresh.Add(1)
		}
		seen <- d.ID
		return alarm(d, &strong)
	})
	close(seen)
	if err != nil {
		return err
	}
	ids := t.printed
	for id := range seen {
		ids[id] = true
	}
	behind, err := t.lag(ctx, "alarms")
	if err != nil {
		return err
	}
	t.result("%s came again as attempt 2, %s for the first time, in %s.", plural(again.Load(), "event"), number(fresh.Load()), took(elapsed))
	t.result("The two processes together saw %s IDs; alarms is %s behind.", number(len(ids)), number(behind[0]))
	return nil
}

// alarm is the tour's handler: it reads the magnitude.
func alarm(d *rheo.Delivery, strong *atomic.Int64) error {
	var quake struct{ Properties struct{ Mag any } }
	if err := json.Unmarshal(d.Payload, &quake); err != nil {
		return err
	}
	switch mag := quake.Properties.Mag.(type) {
	case nil: // not measured
	case float64:
		if mag >= 5 {
			strong.Add(1)
		}
	default:
		return fmt.Errorf("magnitude %q is not a number", fmt.Sprint(mag))
	}
	return nil
}
