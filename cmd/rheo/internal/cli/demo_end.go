package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

const poisonID = "us-broken-1"

// poison appends an event that the handler cannot handle.
func (t *tour) poison(ctx context.Context) error {
	t.title("An event that nobody can handle")
	t.tell("A sensor reports the magnitude \"strong\" instead of a number, and the handler of\n"+
		"alarms fails on it. It is tried %d times, then set aside as a dead letter, with the\n"+
		"reason; it holds nobody up.", demoAttempts)
	t.command("rheo append quakes broken.ndjson …\nrheo dead-letters list quakes alarms", `for letter, err := range inst.DeadLetters(ctx, "quakes", "alarms") { … }`)
	broken := rheo.Event{
		ID: poisonID, Key: "us", Type: "earthquake",
		Payload: []byte(`{"id":"` + poisonID + `","properties":{"mag":"strong","place":"somewhere","net":"us","type":"earthquake"}}`),
	}
	if _, err := t.inst.Append(ctx, demoStream, broken); err != nil {
		return err
	}
	var strong, tries atomic.Int64
	if _, err := t.consume(ctx, "alarms", func(_ context.Context, d *rheo.Delivery) error {
		tries.Add(1)
		return alarm(d, &strong)
	}); err != nil {
		return err
	}
	behind, err := t.lag(ctx, "alarms")
	if err != nil {
		return err
	}
	for letter, err := range t.inst.DeadLetters(ctx, demoStream, "alarms") {
		if err != nil {
			return err
		}
		t.result("%s, partition %d, sequence %d, %s: %s", letter.EventID, letter.Partition, letter.Sequence,
			plural(letter.Attempts, "attempt"), letter.Reason)
	}
	t.result("The handler was called %d times; alarms is %s behind.", tries.Load(), number(behind[0]))
	return nil
}

// mend redrives the dead letter.
func (t *tour) mend(ctx context.Context) error {
	t.title("Mended, and tried again")
	t.tell("The event is still in the stream. Once the handler is mended, the dead letter is\n" +
		"handed out again.")
	t.command("rheo dead-letters redrive quakes alarms\nrheo lag quakes alarms", `inst.Replay(ctx, "quakes", "alarms", rheo.ReplaySelection{IDs: ids})`)
	n, err := redrive(ctx, t.inst, demoStream, "alarms", nil)
	if err != nil {
		return err
	}
	if _, err := t.consume(ctx, "alarms", func(context.Context, *rheo.Delivery) error { return nil }); err != nil {
		return err
	}
	info, err := t.inst.GroupInfo(ctx, demoStream, "alarms")
	if err != nil {
		return err
	}
	t.result("%s redriven and handled; %s left; alarms is %s behind.", plural(n, "dead letter"), number(info.DeadLetters), number(info.Lag()))
	return nil
}

var strongQuakes = rheo.Query{
	Where:   []rheo.Condition{rheo.Where("properties.mag", rheo.OpGe, 5)},
	OrderBy: rheo.ByTimestamp,
}

// search queries the stream.
func (t *tour) search(ctx context.Context) error {
	t.title("Handled is not gone: search the stream")
	t.tell("Consuming takes nothing out. Any field can be searched, by time, by key, by value.")
	t.command("rheo query quakes --where 'properties.mag >= 5' --order-by timestamp", `inst.Query(ctx, "quakes", rheo.Query{Where: …})`)
	began := time.Now()
	found, err := t.inst.Query(ctx, demoStream, strongQuakes)
	if err != nil {
		return err
	}
	elapsed := time.Since(began)
	var strongest rheo.Event
	var top quake
	for _, e := range found {
		var q quake
		if err := json.Unmarshal(e.Payload, &q); err != nil {
			return err
		}
		if q.Properties.Mag > top.Properties.Mag {
			strongest, top = e, q
		}
	}
	t.result("%s of magnitude 5 and more, found in %s. The strongest:", plural(len(found), "earthquake"), took(elapsed))
	t.tell("  M %.1f, %s, %s (%s)", top.Properties.Mag, top.Properties.Place, clock(strongest.Timestamp), strongest.ID)
	return nil
}

type quake struct {
	Properties struct {
		Mag   float64
		Place string
	}
}

// replay hands the strong ones to alarms once more.
func (t *tour) replay(ctx context.Context) error {
	t.title("And do it again")
	t.tell("The rule for alarms has changed? Hand it the strong ones again, by the same search,\n" +
		"or all from a time or sequence on. No event is copied, and archive does not notice.")
	t.command("rheo replay quakes alarms --where 'properties.mag >= 5'\nrheo consume quakes alarms --until-empty",
		`inst.Replay(ctx, "quakes", "alarms", rheo.ReplaySelection{Query: &query})`)
	opened, err := t.inst.Replay(ctx, demoStream, "alarms", rheo.ReplaySelection{Query: &strongQuakes})
	if err != nil {
		return err
	}
	var strong, calls atomic.Int64
	if _, err := t.consume(ctx, "alarms", func(_ context.Context, d *rheo.Delivery) error {
		calls.Add(1)
		return alarm(d, &strong)
	}); err != nil {
		return err
	}
	behind, err := t.lag(ctx, "alarms", "archive")
	if err != nil {
		return err
	}
	t.result("%s opened again, %s handled, %s of them strong; alarms is %s behind.", plural(opened, "event"), number(calls.Load()),
		number(strong.Load()), number(behind[0]))
	t.result("archive, which has yet to see the one broken event, is %s behind.", number(behind[1]))
	return nil
}

func (t *tour) end(context.Context) error {
	fmt.Fprintf(t.app.stdout, "\nThat was it, in %s. rheo --help lists the commands; the Go package is github.com/rheo-go/rheo.\n",
		took(time.Since(t.began)))
	return nil
}
