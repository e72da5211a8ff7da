package embedded

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
	// OpenTimeout is how long Open waits for another holder of the directory to
	// let go of it. Default: not at all.
	OpenTimeout time.Duration
}

// Backend is an open store. Make one with [Open].
type Backend struct {
	dir       string
	clock     rheo.Clock
	lock      *dirLock
	db        *database
	claims    *claimsLog
	committer *committer
	streams   sync.Map // name → *stream

	// calls is read-locked by every call under way, so that Close waits for them.
	calls  sync.RWMutex
	closed atomic.Bool
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable:            true,
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

// EnsureSchema implements [rheo.Backend]; Open has prepared everything.
func (b *Backend) EnsureSchema(ctx context.Context) error { return b.Ping(ctx) }

// Ping implements [rheo.Backend]. It fails once the store has stopped taking
// writes.
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	if err := b.db.refusal(); err != nil {
		return err
	}
	_, err := b.db.lastTx()
	return err
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	if err := b.enter(ctx); err != nil {
		return rheo.StreamInfo{}, err
	}
	defer b.leave()
	s, err := b.stream(name)
	if err != nil {
		return rheo.StreamInfo{}, err
	}
	return s.info(), nil
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
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
	s, err := b.stream(name)
	if err != nil {
		return make(chan struct{}), func() {}
	}
	return s.watchers.Watch()
}

func (b *Backend) now() time.Time { return b.clock.Now().UTC().Truncate(time.Microsecond) }

// enter begins a call; if it returns nil, leave ends it.
func (b *Backend) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	if b.closed.Load() {
		return errClosed(b.dir)
	}
	b.calls.RLock()
	if b.closed.Load() {
		b.calls.RUnlock()
		return errClosed(b.dir)
	}
	return nil
}

func (b *Backend) leave() { b.calls.RUnlock() }

func errClosed(dir string) error {
	return rheo.Errorf(rheo.ErrClosed, "the store in %s was closed", dir)
}

func (b *Backend) stream(name string) (*stream, error) {
	found, ok := b.streams.Load(name)
	if !ok {
		return nil, rheo.Errorf(rheo.ErrStreamNotFound, "%q; create it first", name)
	}
	return found.(*stream), nil
}

func (b *Backend) group(stream, name string) (*group, error) {
	s, err := b.stream(stream)
	if err != nil {
		return nil, err
	}
	found, ok := s.groups.Load(name)
	if !ok {
		return nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, stream)
	}
	return found.(*group), nil
}

// Close implements [rheo.Backend]. Calls under way are finished first. It also
// writes the ledgers, so that the next Open finds no claims to apply.
func (b *Backend) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.calls.Lock()
	defer b.calls.Unlock()
	b.committer.close()
	// Without it the claims stay in their logs, where Open finds them.
	if b.checkpoint() == nil {
		b.claims.clear()
	}
	return cmp.Or(b.claims.close(), b.db.close(), b.lock.release())
}
