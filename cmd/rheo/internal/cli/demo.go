package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

const demoHelp = `Tells in a few seconds what Rheo does, on real events: a week of earthquakes by
the U.S. Geological Survey, which are in the public domain. It works on a fresh
store in a temporary directory, which is gone afterwards; with --store embedded:DIR
(or another) it stays, to try the commands that the tour shows.`

func (a *app) demoCommand() *cobra.Command {
	cmd := a.command("demo", "Take the tour, on real events", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.demo(ctx)
	})
	cmd.Long = demoHelp
	return cmd
}

// demo runs the tour. It does not look at RHEO_STORE, which may be one in use.
func (a *app) demo(ctx context.Context) (err error) {
	t := &tour{app: a, url: a.storeFlag, began: time.Now(), bold: isTerminal(a.stdout) && os.Getenv("NO_COLOR") == ""}
	if strings.HasPrefix(t.url, "memory:") {
		return usagef("the tour kills a process, which a store in memory does not outlive; take embedded:DIR")
	}
	if t.url == "" {
		dir, failed := os.MkdirTemp("", "rheo-demo-")
		if failed != nil {
			return failed
		}
		t.url, t.fleeting = "embedded:"+dir, true
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if t.inst, err = a.open(ctx, t.url, making); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for _, chapter := range []func(context.Context) error{
		t.openStore, t.fillStream, t.readTwice, t.killConsumer, t.takeOver, t.poison, t.mend, t.search, t.replay, t.end,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tour is one run of the demo.
type tour struct {
	app      *app
	url      string
	fleeting bool // the store is in a temporary directory
	inst     *rheo.Instance
	began    time.Time
	bold     bool
	chapters int

	printed map[string]bool // the IDs that the killed consumer had printed
}

func (t *tour) close() error {
	if t.inst == nil {
		return nil
	}
	err := t.inst.Close()
	t.inst = nil
	return err
}

// title begins a chapter.
func (t *tour) title(text string) {
	t.chapters++
	text = fmt.Sprintf("%d. %s", t.chapters, text)
	if t.bold {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Fprintf(t.app.stdout, "\n%s\n", text)
}

// tell explains, in lines indented alike.
func (t *tour) tell(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(t.app.stdout, "   %s\n", line)
	}
}

// command shows what does it in a shell, and in Go.
func (t *tour) command(shell, code string) {
	for line := range strings.SplitSeq(shell, "\n") {
		if !strings.HasPrefix(line, " ") {
			line = "$ " + line
		}
		fmt.Fprintf(t.app.stdout, "     %s\n", line)
	}
	if code != "" {
		fmt.Fprintf(t.app.stdout, "     in Go: %s\n", code)
	}
}

// result says what came of it.
func (t *tour) result(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n     ")
	fmt.Fprintf(t.app.stdout, "   → %s\n", text)
}

// consume runs the handler until the group has nothing left to do.
func (t *tour) consume(ctx context.Context, group string, handler rheo.Handler) (time.Duration, error) {
	began := time.Now()
	g, err := rheo.NewGroup(t.inst, rheo.GroupOptions{
		Stream: demoStream, Group: group, Handler: handler,
		PollInterval: 50 * time.Millisecond,
		RetryBackoff: rheo.Backoff{Min: 20 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	if err != nil {
		return 0, err
	}
	running, finish := context.WithCancel(ctx)
	defer finish()
	var watch sync.WaitGroup
	watch.Go(func() { whenEmpty(running, t.inst, demoStream, group, nil, finish) })
	err = g.Run(running)
	finish()
	watch.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return time.Since(began), err
}

// took writes a duration of the tour.
func took(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
