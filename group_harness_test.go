package rheo_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
	"github.com/rheo-go/rheo/memory"
)

// bench is a stream and a group on a memory store that a test can make fail. It
// lives in a bubble of testing/synctest, where time passes when nothing else can
// happen.
type bench struct {
	*rheo.Instance
	t     *testing.T
	store *faultbackend.Backend // as the runtime sees it: faults go here
	truth *faultbackend.Backend // what came through to the store, and what it did
	logs  *logs
}

// bubble runs a test on a stream of one partition and a group with the defaults.
func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	bubbleWith(t, 1, rheo.GroupConfig{}, test)
}

func bubbleWith(t *testing.T, partitions int, config rheo.GroupConfig, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newBench(t, partitions, config)) })
}

func newBench(t *testing.T, partitions int, config rheo.GroupConfig) *bench {
	t.Helper()
	truth := faultbackend.New(memory.New(nil))
	b := &bench{t: t, store: faultbackend.New(truth), truth: truth, logs: &logs{}}
	b.Instance = b.instance()
	b.must(b.CreateStream(t.Context(), "stream", rheo.StreamConfig{Partitions: partitions}))
	b.must(b.CreateGroup(t.Context(), "stream", "group", config))
	return b
}

// instance returns another instance over the store, as another process has one.
func (b *bench) instance() *rheo.Instance {
	b.t.Helper()
	i, err := rheo.New(b.store, &rheo.Options{Logger: slog.New(b.logs)})
	b.must(err)
	return i
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// append adds events to partition 0.
func (b *bench) append(ids ...string) {
	b.t.Helper()
	b.appendTo(0, ids...)
}

func (b *bench) appendTo(partition int, ids ...string) {
	b.t.Helper()
	events := make([]rheo.Event, len(ids))
	for at, id := range ids {
		events[at] = rheo.Event{ID: id, Partition: partition, Pinned: true}
	}
	_, err := b.Append(b.t.Context(), "stream", events...)
	b.must(err)
}

// names returns prefix1, prefix2, …
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i+1)
	}
	return all
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) { time.Sleep(d) }

func (b *bench) info() rheo.GroupInfo {
	b.t.Helper()
	info, err := b.GroupInfo(b.t.Context(), "stream", "group")
	b.must(err)
	return info
}

func (b *bench) lag() int64 {
	b.t.Helper()
	info := b.info()
	return info.Lag()
}

func (b *bench) deadLetters() (reasons []string) {
	b.t.Helper()
	for d, err := range b.DeadLetters(b.t.Context(), "stream", "group") {
		b.must(err)
		reasons = append(reasons, d.EventID+": "+d.Reason)
	}
	return reasons
}

// settlements returns what the runtime asked the store to settle, in order, as
// "ack e1", the batches one after the other.
func (b *bench) settlements() (all []string) {
	for _, c := range b.store.Calls(faultbackend.Settle) {
		for _, s := range c.Settlements {
			all = append(all, s.Outcome.String()+" "+s.Lease.ID)
		}
	}
	return all
}

// running is a group under way.
type running struct {
	*rheo.Group
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func (b *bench) start(o rheo.GroupOptions) *running {
	b.t.Helper()
	return b.startOn(b.Instance, o)
}

func (b *bench) startOn(i *rheo.Instance, o rheo.GroupOptions) *running {
	b.t.Helper()
	o.Stream, o.Group = "stream", "group"
	group, err := rheo.NewGroup(i, o)
	b.must(err)
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &running{Group: group, t: b.t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = group.Run(ctx)
	}()
	return r
}

// wait returns what Run does.
func (r *running) wait() error {
	<-r.ended
	r.cancel()
	return r.err
}

// stop ends the group's context and waits for Run, which must return nil.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.wait(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// hasEnded reports whether Run has returned, once nothing moves any more.
func (r *running) hasEnded() bool {
	synctest.Wait()
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// handled notes what a handler is given.
type handled struct {
	mu    sync.Mutex
	start time.Time
	seen  []handling
	now   int // handlers running
	most  int // at once
}

type handling struct {
	id      string
	attempt int
	at      time.Duration // since the note was begun
}

func newHandled() *handled { return &handled{start: time.Now()} }

// by wraps a handler; nil acks.
func (h *handled) by(handler rheo.Handler) rheo.Handler {
	return func(ctx context.Context, d *rheo.Delivery) error {
		h.mu.Lock()
		h.seen = append(h.seen, handling{d.ID, d.Attempt, time.Since(h.start)})
		h.now++
		h.most = max(h.most, h.now)
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.now--
		}()
		if handler == nil {
			return nil
		}
		return handler(ctx, d)
	}
}

func (h *handled) all() []handling {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// ids returns "e1/1" for the first attempt at e1, and so on.
func (h *handled) ids() []string {
	var ids []string
	for _, s := range h.all() {
		ids = append(ids, fmt.Sprintf("%s/%d", s.id, s.attempt))
	}
	return ids
}

func (h *handled) mostAtOnce() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// logs is a slog.Handler that keeps what it is given.
type logs struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// at returns the records of the level, each as its message and its attribute of
// the key.
func (l *logs) at(level slog.Level, key string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Level != level {
			continue
		}
		line := r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == key {
				line += ": " + a.Value.String()
			}
			return true
		})
		lines = append(lines, line)
	}
	return lines
}

// within reports whether d lies between the bounds.
func within(d, least, most time.Duration) bool { return d >= least && d <= most }

// equal fails the test unless the two are equal.
func equal[S ~[]E, E comparable](t *testing.T, what string, got, want S) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// slowFetch makes every fetch's reply take that long from now on.
func (b *bench) slowFetch(d time.Duration) {
	b.store.Inject(faultbackend.DelayReply(d), faultbackend.Fetch)
}

func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }
