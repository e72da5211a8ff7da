package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

const appendHelp = `Appends one event for each line of FILE, or of standard input: the line, a JSON
value, is the event's payload. --id, --key, --type and --time name the place in
the line that gives the event's field, as a dotted path. An event's ID makes
appending it again harmless: what is there already is not appended twice.

A file is checked as a whole before its first event is appended: a bad line
means that nothing is. From a pipe, events are appended as they come, in batches
that are written as a whole or not at all; at a bad line, what stands before it is
in the stream, and the message says how much that is.`

type appender struct {
	app       *app
	inst      *rheo.Instance
	stream    string
	paths     fieldPaths
	batch     int
	partition int
	pinned    bool

	checked bool // each line has been, before the first is appended
	result  appendResult
	last    int // the last line that is in the stream
}

type appendResult struct {
	Stream     string `json:"stream"`
	Read       int64  `json:"read"`
	Appended   int64  `json:"appended"`
	Duplicates int64  `json:"duplicates"`
}

func (a *app) appendCommand() *cobra.Command {
	ap := &appender{app: a}
	cmd := a.command("append STREAM [FILE|-] [flags]", "Append events from NDJSON, one a line", cobra.RangeArgs(1, 2),
		func(ctx context.Context, args []string) error {
			file := "-"
			if len(args) == 2 {
				file = args[1]
			}
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				ap.inst, ap.stream = inst, args[0]
				return ap.run(ctx, file)
			})
		})
	cmd.Long = appendHelp
	cmd.Example = `  rheo append quakes all_week.ndjson --id id --key properties.net \
       --type properties.type --time properties.time
  tail -f app.log | rheo append logs --id request_id`
	cmd.Flags().Var(&ap.paths.id, "id", "where the ID is: a string or a number (default: a new one for each)")
	cmd.Flags().Var(&ap.paths.key, "key", "where the key is, which routes to a partition; null or missing is none")
	cmd.Flags().Var(&ap.paths.kind, "type", "where the type is; null or missing is none")
	cmd.Flags().Var(&ap.paths.time, "time", "where the time is: milliseconds since 1970, or RFC 3339 (default: now)")
	addInt(cmd, &ap.batch, "batch", 100, 1, rheo.MaxBatch, "how many events to append at once")
	addInt(cmd, &ap.partition, "partition", 0, 0, rheo.MaxPartitions-1, "append to this partition, whatever the key")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { ap.pinned = cmd.Flags().Changed("partition") }
	return cmd
}

func (ap *appender) run(ctx context.Context, file string) (err error) {
	if _, err := ap.inst.StreamInfo(ctx, ap.stream); err != nil {
		return err
	}
	in, err := ap.app.openInput(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	ap.result.Stream = ap.stream
	if in.file != nil {
		start, err := in.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if err := ap.check(ctx, in); err != nil {
			return err
		}
		if err := in.rewind(start); err != nil {
			return err
		}
	}
	if err := ap.append(ctx, in); err != nil {
		return err
	}
	return ap.app.say(ap.result, "appended %s to stream %s; %s there already",
		plural(ap.result.Appended, "event"), ap.stream, number(ap.result.Duplicates))
}

// check reads all of a file and appends nothing.
func (ap *appender) check(ctx context.Context, in *input) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bar := ap.app.progress("checking "+in.name, in.size, in.read.Load)
	defer bar.stop()
	for l := range in.lines(ctx) {
		if _, err := ap.event(ctx, l); err != nil {
			return fmt.Errorf("%s:%d: %w; nothing was appended", in.name, l.number, err)
		}
	}
	ap.checked = true
	return context.Cause(ctx)
}

// event makes the line's event and checks it against every limit.
func (ap *appender) event(ctx context.Context, l line) (rheo.Event, error) {
	if l.err != nil {
		return rheo.Event{}, l.err
	}
	e, err := ap.paths.event(l.text)
	if err != nil {
		return rheo.Event{}, err
	}
	e.Partition, e.Pinned = ap.partition, ap.pinned
	if ap.checked {
		return e, nil
	}
	if _, err := ap.inst.Prepare(ctx, ap.stream, e); err != nil {
		return rheo.Event{}, plain(err)
	}
	return e, nil
}

func (ap *appender) append(ctx context.Context, in *input) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bar := ap.app.progress("appending "+in.name, in.size, in.read.Load)
	defer bar.stop()
	lines := in.lines(ctx)
	for {
		b := ap.collect(ctx, lines)
		if ctx.Err() != nil {
			return fmt.Errorf("%w; %s", context.Cause(ctx), ap.sofar())
		}
		if err := ap.flush(ctx, b); err != nil {
			return fmt.Errorf("%s:%d-%d: %w; %s", in.name, b.first, b.last, plain(err), ap.sofar())
		}
		if b.bad != nil {
			return fmt.Errorf("%s:%d: %w; %s", in.name, b.badLine, b.bad, ap.sofar())
		}
		if b.end {
			return nil
		}
	}
}

// batch is what one append writes, and why it ends where it does.
type batch struct {
	events      []rheo.Event
	first, last int // its lines
	badLine     int // the line after it, if that one is bad
	bad         error
	end         bool
}

// linger is how long a batch that is not full waits for more from a pipe.
const linger = 50 * time.Millisecond

func (ap *appender) collect(ctx context.Context, lines <-chan line) (b batch) {
	var overdue <-chan time.Time
	for len(b.events) < ap.batch {
		select {
		case l, ok := <-lines:
			if !ok {
				b.end = true
				return b
			}
			e, err := ap.event(ctx, l)
			if err != nil {
				b.badLine, b.bad = l.number, err
				return b
			}
			if b.events == nil {
				b.first, overdue = l.number, time.After(linger)
				b.events = make([]rheo.Event, 0, ap.batch)
			}
			b.events, b.last = append(b.events, e), l.number
		case <-overdue:
			return b
		case <-ctx.Done():
			return b
		}
	}
	return b
}

func (ap *appender) flush(ctx context.Context, b batch) error {
	if len(b.events) == 0 {
		return nil
	}
	results, err := ap.inst.Append(ctx, ap.stream, b.events...)
	if err != nil {
		return err
	}
	ap.last = b.last
	for i := range results {
		ap.result.Read++
		if results[i].Duplicate {
			ap.result.Duplicates++
		} else {
			ap.result.Appended++
		}
	}
	return nil
}

// sofar says what an append that stops half-way leaves behind.
func (ap *appender) sofar() string {
	switch {
	case ap.result.Read == 0:
		return "nothing was appended"
	case ap.paths.id != nil:
		return fmt.Sprintf("the %s of lines 1 to %d are in the stream; appending all of it again is harmless, since they have IDs",
			plural(ap.result.Read, "event"), ap.last)
	}
	return fmt.Sprintf("the %s of lines 1 to %d are in the stream; go on with line %d (without --id, repeating a line appends it again)",
		plural(ap.result.Read, "event"), ap.last, ap.last+1)
}

// plain takes the library's name off an error that stands in the middle of a
// message.
func plain(err error) error { return &plainError{err} }

type plainError struct{ error }

func (e *plainError) Error() string { return strings.TrimPrefix(e.error.Error(), "rheo: ") }
func (e *plainError) Unwrap() error { return e.error }
