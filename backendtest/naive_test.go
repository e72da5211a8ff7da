package backendtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// A naive backend is the suite's own subject: one mutex, one entry per event and
// group, no ledger. It shares no code with the backends that the suite is for,
// and has a switch for each of the bugs that the suite must find.
type naive struct {
	*store
	bug    string
	closed atomic.Bool
	own    sync.Map // the IDs of what was appended through it
}

// A store is what survives closing and opening again.
type store struct {
	mu      sync.Mutex
	clock   rheo.Clock
	streams map[string]*stream
	watches map[chan struct{}]string
	leases  int // handed out so far
}

type stream struct {
	name    string
	created time.Time
	log     [][]rheo.Event
	groups  map[string]*group
}

func openNaive(clock rheo.Clock, bug string) *naive {
	s := &store{clock: clock, streams: make(map[string]*stream), watches: make(map[chan struct{}]string)}
	return &naive{store: s, bug: bug}
}

// reopen is what a restart is to this backend.
func (b *naive) reopen() *naive {
	_ = b.Close()
	for _, s := range b.streams {
		if b.has("ids forgotten") {
			for p := range s.log {
				for i := range s.log[p] {
					s.log[p][i].ID += "?"
				}
			}
		}
		for _, g := range s.groups {
			g.restart(b)
		}
	}
	return &naive{store: b.store, bug: b.bug}
}

func (b *naive) has(bug string) bool { return b.bug == bug }

func (b *naive) now() time.Time { return b.clock.Now().UTC().Truncate(time.Microsecond) }

func (b *naive) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable: true, Distributed: true, Partitions: true, ContiguousFrontier: true, Replay: true, OrderedScan: true, IdempotentAppend: true, AtomicBatch: true,
		},
		Mechanisms: rheo.Mechanisms{Notifications: true},
	}
}

func (b *naive) ready() error {
	if b.closed.Load() && !b.has("closed works") {
		return rheo.Errorf(rheo.ErrClosed, "the store")
	}
	return nil
}

func (b *naive) Ping(context.Context) error { return b.ready() }

func (b *naive) EnsureSchema(context.Context) error {
	if b.has("schema made anew") {
		b.mu.Lock()
		defer b.mu.Unlock()
		clear(b.streams)
	}
	return b.ready()
}

func (b *naive) Close() error {
	b.closed.Store(true)
	return nil
}

// locked finds a stream and a group, unless its name is "", and leaves the mutex
// locked if it returns no error.
func (b *naive) locked(name, groupName string) (*stream, *group, error) {
	if err := b.ready(); err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	s := b.streams[b.key(name)]
	if s == nil {
		b.mu.Unlock()
		if b.has("group before stream") && groupName != "" {
			return nil, nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q", groupName)
		}
		return nil, nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q", name)
	}
	g := s.groups[groupName]
	if g == nil && groupName != "" {
		b.mu.Unlock()
		return nil, nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q", groupName)
	}
	return s, g, nil
}

// key is what a stream is found by.
func (b *naive) key(name string) string {
	if b.has("trailing blanks") {
		return strings.TrimRight(name, " ")
	}
	return name
}

func (b *naive) CreateStream(_ context.Context, name string, c rheo.StreamConfig) error {
	if err := b.ready(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams[b.key(name)] != nil && !b.has("stream created again") {
		return rheo.Errorf(rheo.ErrAlreadyExists, "%q", name)
	}
	b.streams[b.key(name)] = &stream{name: name, created: b.now(), log: make([][]rheo.Event, c.Partitions), groups: make(map[string]*group)}
	return nil
}

func (b *naive) info(s *stream) rheo.StreamInfo {
	info := rheo.StreamInfo{Name: s.name, Partitions: len(s.log), CreatedAt: s.created}
	for p := range s.log {
		high := int64(len(s.log[p]))
		if b.has("watermark ahead") && high > 0 {
			high++
		}
		info.HighWatermarks = append(info.HighWatermarks, high)
	}
	return info
}

func (b *naive) Stream(_ context.Context, name string) (rheo.StreamInfo, error) {
	s, _, err := b.locked(name, "")
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	defer b.mu.Unlock()
	return b.info(s), nil
}

func (b *naive) Streams(context.Context) ([]rheo.StreamInfo, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var infos []rheo.StreamInfo
	for _, name := range slices.Sorted(maps.Keys(b.streams)) {
		infos = append(infos, b.info(b.streams[name]))
	}
	if b.has("streams by locale") {
		slices.SortFunc(infos, func(x, y rheo.StreamInfo) int { return cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	}
	return infos, nil
}

func (s *stream) find(e *rheo.Event) *rheo.Event {
	for i := range s.log[e.Partition] {
		if s.log[e.Partition][i].ID == e.ID {
			return &s.log[e.Partition][i]
		}
	}
	return nil
}

// expect checks the expectations of the partitions in which something is new.
func (b *naive) expect(s *stream, r rheo.AppendRequest) error {
	for i := range r.Events {
		e := &r.Events[i]
		want, expected := r.Expected[e.Partition]
		held := s.find(e) != nil && !b.has("retry conflicts")
		if high := int64(len(s.log[e.Partition])); expected && want != high && !held && !b.has("expectation ignored") {
			return rheo.Errorf(rheo.ErrConflict, "partition %d is at %d", e.Partition, high)
		}
	}
	return nil
}

func (b *naive) Append(_ context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	s, _, err := b.locked(r.Stream, "")
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if b.has("half a batch") && len(r.Events) > 1 {
		b.put(s, &r.Events[0], nil)
	}
	if err := b.expect(s, r); err != nil {
		return nil, err
	}
	if b.has("small batches") {
		r.Events = r.Events[:min(len(r.Events), 1500)]
	}
	var results []rheo.AppendResult
	for i := range r.Events {
		b.own.Store(r.Events[i].ID, true)
		results = append(results, b.put(s, &r.Events[i], results))
		if b.has("batch in pieces") {
			b.mu.Unlock()
			runtime.Gosched()
			b.mu.Lock()
		}
	}
	b.wake(r.Stream)
	return results, nil
}

// put appends an event unless it is held.
func (b *naive) put(s *stream, e *rheo.Event, before []rheo.AppendResult) rheo.AppendResult {
	held := s.find(e)
	if b.has("twins in a batch") && slices.ContainsFunc(before, func(r rheo.AppendResult) bool { return r.ID == e.ID }) {
		held = nil
	}
	if b.has("one ID for all streams") {
		for _, other := range b.streams {
			for p := range other.log {
				if found := other.find(&rheo.Event{ID: e.ID, Partition: p}); found != nil && held == nil {
					held = found
				}
			}
		}
	}
	if held != nil && !b.has("not idempotent") {
		if b.has("duplicate as given") {
			result := e.Clone()
			result.Sequence = held.Sequence
			return rheo.AppendResult{Event: result, Duplicate: true}
		}
		return rheo.AppendResult{Event: held.Clone(), Duplicate: true}
	}
	stored := b.stored(e)
	stored.Sequence = int64(len(s.log[e.Partition]) + 1)
	if b.has("gap") && stored.Sequence > 3 {
		stored.Sequence++
	}
	s.log[e.Partition] = append(s.log[e.Partition], stored)
	return rheo.AppendResult{Event: b.copied(&stored)}
}

// stored is the event as this store keeps it.
func (b *naive) stored(e *rheo.Event) rheo.Event {
	stored := e.Clone()
	switch b.bug {
	case "keeps arguments":
		stored = *e
	case "milliseconds":
		stored.Timestamp = stored.Timestamp.Truncate(time.Millisecond)
	case "local time":
		stored.Timestamp = stored.Timestamp.In(time.FixedZone("", 3600))
	case "metadata trimmed":
		for k, v := range stored.Metadata {
			stored.Metadata[k] = strings.TrimSpace(v)
			if v == "" {
				delete(stored.Metadata, k)
			}
		}
	case "floats":
		var v any
		_ = json.Unmarshal(e.Payload, &v)
		stored.Payload, _ = json.Marshal(v)
	case "dots in keys":
		stored.Payload = json.RawMessage(strings.ReplaceAll(string(e.Payload), "a.b", "a_b"))
	case "small payloads":
		stored.Payload = stored.Payload[:min(len(stored.Payload), 1<<16)]
	case "routed again":
		stored.Partition = 0
	case "unescaped":
		stored.Payload = json.RawMessage(strings.ReplaceAll(string(e.Payload), "$", "＄"))
	}
	return stored
}

func (b *naive) copied(e *rheo.Event) rheo.Event {
	if b.has("lends its memory") {
		return *e
	}
	return e.Clone()
}

func (b *naive) Read(_ context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	s, _, err := b.locked(r.Stream, "")
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	var events []rheo.Event
	if b.has("a page skips one") && r.After > 0 && r.Limit < 1000 {
		r.After++
	}
	if b.has("read is not limited") {
		r.Limit = rheo.MaxBatch
	}
	for i := range s.log[r.Partition] {
		e := &s.log[r.Partition][i]
		if _, own := b.own.Load(e.ID); !own && b.has("reads its own writes alone") {
			continue
		}
		if (e.Sequence > r.After || b.has("after is inclusive") && e.Sequence >= r.After) && len(events) < r.Limit {
			events = append(events, b.copied(e))
		}
	}
	return events, nil
}

func (b *naive) Watch(name string) (hints <-chan struct{}, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan struct{}, 1)
	b.watches[c] = name
	return c, func() {
		if !b.has("watch never stops") {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.watches, c)
		}
	}
}

func (b *naive) wake(name string) {
	for c, watched := range b.watches {
		if b.has("one watcher") && len(b.watches) > 1 && fmt.Sprint(c) != fmt.Sprint(slices.MinFunc(slices.Collect(maps.Keys(b.watches)), byAddress)) {
			continue
		}
		if watched == name && !b.has("no hints") {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func byAddress(a, b chan struct{}) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
