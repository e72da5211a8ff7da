package memory

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
	"github.com/rheo-go/rheo/wake"
)

type stream struct {
	name       string
	createdAt  time.Time
	partitions []*partition
	groups     sync.Map // name → *group
	watchers   wake.Hub
}

func (s *stream) info() rheo.StreamInfo {
	info := rheo.StreamInfo{Name: s.name, Partitions: len(s.partitions), CreatedAt: s.createdAt}
	for _, p := range s.partitions {
		info.HighWatermarks = append(info.HighWatermarks, p.view().high())
	}
	return info
}

// chunkSize is how many events share one array. Arrays never move, so a reader
// needs the lock only to learn how far the log goes.
const chunkSize = 1024

// partition is one part of a log. Below the high watermark nothing changes any
// more.
type partition struct {
	number int

	mu     sync.RWMutex
	chunks [][]rheo.Event // all full but the last
	ids    map[string]int64
}

func newPartition(number int) *partition {
	return &partition{number: number, ids: make(map[string]int64)}
}

// view is a partition as it was at one moment.
type view struct {
	full [][]rheo.Event
	last []rheo.Event
}

func (p *partition) view() view {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.snapshot()
}

// snapshot copies the last chunk's header: the list's other elements are full
// and never change again.
func (p *partition) snapshot() view {
	n := len(p.chunks)
	if n == 0 {
		return view{}
	}
	return view{full: p.chunks[:n-1], last: p.chunks[n-1]}
}

func (v view) high() int64 { return int64(len(v.full)*chunkSize + len(v.last)) }

func (v view) at(sequence int64) *rheo.Event {
	i := int(sequence - 1)
	if chunk := i / chunkSize; chunk < len(v.full) {
		return &v.full[chunk][i%chunkSize]
	}
	return &v.last[i%chunkSize]
}

// seekTime returns the first sequence with that timestamp or a later one, or one
// more than the high watermark.
func (v view) seekTime(t time.Time) int64 {
	for sequence := int64(1); sequence <= v.high(); sequence++ {
		if !v.at(sequence).Timestamp.Before(t) {
			return sequence
		}
	}
	return v.high() + 1
}

// Append implements [rheo.Backend]. It holds the locks of all partitions that
// the batch touches, taken in ascending order, so that the whole batch appears at
// once.
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	touched := touchedBy(r.Events)
	for _, n := range touched {
		s.partitions[n].mu.Lock()
	}
	defer func() {
		for _, n := range touched {
			s.partitions[n].mu.Unlock()
		}
	}()
	for _, n := range touched {
		if err := s.partitions[n].expect(r); err != nil {
			return nil, err
		}
	}
	results := make([]rheo.AppendResult, len(r.Events))
	for i := range r.Events {
		results[i] = s.partitions[r.Events[i].Partition].append(&r.Events[i])
	}
	s.watchers.Wake()
	return results, nil
}

func touchedBy(events []rheo.Event) []int {
	var touched []int
	for i := range events {
		if !slices.Contains(touched, events[i].Partition) {
			touched = append(touched, events[i].Partition)
		}
	}
	slices.Sort(touched)
	return touched
}

// expect checks the expectation of this partition, if it has one and the batch
// holds an event for it that would be appended.
func (p *partition) expect(r rheo.AppendRequest) error {
	want, expected := r.Expected[p.number]
	high := p.snapshot().high()
	if !expected || want == high {
		return nil
	}
	for i := range r.Events {
		e := &r.Events[i]
		if _, held := p.ids[e.ID]; e.Partition == p.number && !held {
			return rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d; nothing was appended",
				p.number, r.Stream, high, want)
		}
	}
	return nil
}

func (p *partition) append(e *rheo.Event) rheo.AppendResult {
	if sequence, held := p.ids[e.ID]; held {
		return rheo.AppendResult{Event: p.snapshot().at(sequence).Clone(), Duplicate: true}
	}
	last := len(p.chunks) - 1
	if last < 0 || len(p.chunks[last]) == chunkSize {
		p.chunks = append(p.chunks, make([]rheo.Event, 0, chunkSize))
		last++
	}
	stored := e.Clone()
	stored.Sequence = int64(last*chunkSize + len(p.chunks[last]) + 1)
	p.chunks[last] = append(p.chunks[last], stored)
	p.ids[e.ID] = stored.Sequence
	result := *e
	result.Sequence = stored.Sequence
	return rheo.AppendResult{Event: result}
}

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	v := s.partitions[r.Partition].view()
	last := v.high()
	if r.After >= last {
		return nil, nil
	}
	last = min(last, r.After+int64(r.Limit))
	events := make([]rheo.Event, 0, last-r.After)
	for sequence := r.After + 1; sequence <= last; sequence++ {
		events = append(events, v.at(sequence).Clone())
	}
	return events, nil
}

// Query implements [rheo.Backend].
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	return scan.Page(ctx, source{s}, r)
}

// source is a stream as package scan reads it.
type source struct{ *stream }

func (s source) High(_ context.Context, partition int) (int64, error) {
	return s.partitions[partition].view().high(), nil
}

func (s source) Walk(_ context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	v := s.partitions[partition].view()
	return func(yield func(*rheo.Event, error) bool) {
		for offset := range last - first + 1 {
			sequence := first + offset
			if descending {
				sequence = last - offset
			}
			if !yield(v.at(sequence), nil) {
				return
			}
		}
	}
}

func (s source) Locate(_ context.Context, partition int, id string) (int64, bool, error) {
	p := s.partitions[partition]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.ids[id], true, nil
}
