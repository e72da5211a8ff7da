// Package memory is the [rheo.Backend] that keeps everything in this process'
// memory: the reference for all others, and what tests use. Nothing survives the
// process. Each partition of a stream, and each partition of a group, has a lock
// of its own; there is no global one.
package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// Options configures a [Backend]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// Clock judges lease expiry. Default [rheo.SystemClock].
	Clock rheo.Clock
}

// Backend is a store in memory. Make one with [New].
type Backend struct {
	clock   rheo.Clock
	closed  atomic.Bool
	streams sync.Map // name → *stream
}

// New returns an empty store.
func New(opts *Options) *Backend {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	return &Backend{clock: cmp.Or(o.Clock, rheo.SystemClock())}
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Partitions:         true,
			ContiguousFrontier: true,
			Replay:             true,
			OrderedScan:        true,
			IdempotentAppend:   true,
			AtomicBatch:        true,
		},
		Mechanisms: rheo.Mechanisms{Notifications: true},
	}
}

// EnsureSchema implements [rheo.Backend]; there is nothing to prepare.
func (b *Backend) EnsureSchema(ctx context.Context) error { return b.ready(ctx) }

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error { return b.ready(ctx) }

// Close implements [rheo.Backend].
func (b *Backend) Close() error {
	b.closed.Store(true)
	return nil
}

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	s := &stream{name: name, createdAt: b.now()}
	for p := range config.Partitions {
		s.partitions = append(s.partitions, newPartition(p))
	}
	if _, taken := b.streams.LoadOrStore(name, s); taken {
		return rheo.Errorf(rheo.ErrAlreadyExists, "stream %q", name)
	}
	return nil
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	s, err := b.stream(ctx, name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	return s.info(), nil
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	var infos []rheo.StreamInfo
	b.streams.Range(func(_, s any) bool {
		infos = append(infos, s.(*stream).info())
		return true
	})
	slices.SortFunc(infos, func(x, y rheo.StreamInfo) int { return strings.Compare(x.Name, y.Name) })
	return infos, nil
}

// Watch implements [rheo.Waiter].
func (b *Backend) Watch(name string) (hints <-chan struct{}, stop func()) {
	found, ok := b.streams.Load(name)
	if !ok {
		return make(chan struct{}), func() {}
	}
	return found.(*stream).watchers.Watch()
}

func (b *Backend) now() time.Time { return b.clock.Now().UTC().Truncate(time.Microsecond) }

func (b *Backend) ready(ctx context.Context) error {
	if b.closed.Load() {
		return rheo.Errorf(rheo.ErrClosed, "the memory store was closed")
	}
	if err := ctx.Err(); err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	return nil
}

func (b *Backend) stream(ctx context.Context, name string) (*stream, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	found, ok := b.streams.Load(name)
	if !ok {
		return nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	return found.(*stream), nil
}

func (b *Backend) group(ctx context.Context, stream, name string) (*stream, *group, error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return nil, nil, err
	}
	found, ok := s.groups.Load(name)
	if !ok {
		return nil, nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, stream)
	}
	return s, found.(*group), nil
}
