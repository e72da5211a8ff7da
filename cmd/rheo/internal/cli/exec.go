package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
)

// exitReject is the exit code by which a command rejects its event: EX_DATAERR.
const exitReject = 65

var errRejected = errors.New("rejected")

// execute runs the command for the event. Its standard output and error become
// ours, line by line; the last lines of the latter are the reason of a failure.
func (c *consumer) execute(ctx context.Context, d *rheo.Delivery) error {
	cmd := shell(ctx, c.o.exec)
	cmd.Env = append(os.Environ(), environment(d)...)
	cmd.Stdin = bytes.NewReader(d.Payload)
	stdout := &lineWriter{to: c.app.stdout}
	stderr := &lineWriter{to: c.app.stderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// What the command has left behind in the background may hold on to the
	// output; it is killed, and not waited for.
	cmd.WaitDelay = time.Second
	err := c.app.children.run(cmd)
	if lost := errors.Join(stdout.flush(), stderr.flush()); lost != nil {
		c.finish(outputError(lost))
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	err = commandError(err, stderr.tail)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitReject {
		return rheo.Reject(fmt.Errorf("%w: %w", errRejected, err))
	}
	return err
}

func commandError(err error, stderr []byte) error {
	if said := strings.TrimSpace(string(stderr)); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// environment describes the delivery to the command.
func environment(d *rheo.Delivery) []string {
	metadata, err := json.Marshal(withMetadata(d.Event).Metadata)
	if err != nil { // cannot be: strings
		metadata = []byte("{}")
	}
	return []string{
		"RHEO_ID=" + d.ID,
		"RHEO_STREAM=" + d.Stream,
		"RHEO_GROUP=" + d.Group,
		"RHEO_PARTITION=" + strconv.Itoa(d.Partition),
		"RHEO_SEQUENCE=" + strconv.FormatInt(d.Sequence, 10),
		"RHEO_TIMESTAMP=" + d.Timestamp.Format(time.RFC3339Nano),
		"RHEO_KEY=" + d.Key,
		"RHEO_TYPE=" + d.Type,
		"RHEO_METADATA=" + string(metadata),
		"RHEO_ATTEMPT=" + strconv.Itoa(d.Attempt),
		"RHEO_LAST_REASON=" + d.LastReason,
	}
}

// children are the commands that run now, so that none outlives us.
type children struct {
	mu      sync.Mutex
	running map[*exec.Cmd]struct{}
	closed  bool
}

var errEnding = errors.New("the process ends")

func (c *children) run(cmd *exec.Cmd) error {
	if err := c.start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = killGroup(cmd) // what it left behind in the background
	c.mu.Lock()
	delete(c.running, cmd)
	c.mu.Unlock()
	return err
}

func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errEnding
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.running == nil {
		c.running = make(map[*exec.Cmd]struct{})
	}
	c.running[cmd] = struct{}{}
	return nil
}

// kill kills all of them, and lets no other start.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for cmd := range c.running {
		_ = killGroup(cmd)
	}
}

// lineWriter passes whole lines on, so that the lines of commands that run at
// once do not mix, and keeps the end of what it has seen.
type lineWriter struct {
	to   io.Writer
	part []byte
	tail []byte
	err  error
}

const (
	mostPart = 64 << 10
	mostTail = 400
)

// Write implements [io.Writer].
func (w *lineWriter) Write(p []byte) (int, error) {
	w.tail = lastBytes(append(w.tail, lastBytes(p)...))
	w.part = append(w.part, p...)
	end := bytes.LastIndexByte(w.part, '\n') + 1
	if end == 0 && len(w.part) > mostPart {
		end = len(w.part)
	}
	w.pass(end)
	return len(p), nil
}

func (w *lineWriter) pass(n int) {
	if n == 0 || w.err != nil {
		return
	}
	_, w.err = w.to.Write(w.part[:n])
	w.part = append(w.part[:0], w.part[n:]...)
}

func (w *lineWriter) flush() error {
	w.pass(len(w.part))
	return w.err
}

func lastBytes(p []byte) []byte { return p[max(0, len(p)-mostTail):] }
