package redis

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/lifetime"
	"github.com/rheo-go/rheo/wake"
)

// Options configures a [Backend]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// Prefix begins the name of every key, with a colon after it. Default "rheo".
	Prefix string
	// IdempotencyWindow is how long after an append its event's ID is recognised at
	// least. It costs memory for IDs that do not rise from one event to the next, which
	// are forgotten after twice the time at most: see docs/guides/redis.md.
	// Default [DefaultIdempotencyWindow], at least a second.
	IdempotencyWindow time.Duration
	// WithoutBlockingReads has no connection of our own opened: consumers find events
	// that other processes append by polling.
	WithoutBlockingReads bool
	// Logger is told what was lost and mended. Default [slog.Default].
	Logger *slog.Logger
	// Clock is for tests alone: it takes the place of Redis' clock.
	Clock rheo.Clock
}

// What Options take if nothing else is given.
const (
	DefaultPrefix            = "rheo"
	DefaultIdempotencyWindow = 24 * time.Hour
)

func (o *Options) complete() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.IdempotencyWindow = cmp.Or(c.IdempotencyWindow, DefaultIdempotencyWindow)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	notPrintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(c.Prefix) > rheo.MaxNameBytes:
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix has %d bytes, must have 1 to %d", len(c.Prefix), rheo.MaxNameBytes)
	case !utf8.ValidString(c.Prefix) || strings.ContainsFunc(c.Prefix, notPrintable) || strings.ContainsAny(c.Prefix, "{}"):
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix is %q, must be printable, and without braces, which a cluster gives a meaning", c.Prefix)
	case c.IdempotencyWindow < time.Second || c.IdempotencyWindow > rheo.MaxDelay:
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.IdempotencyWindow is %v, must be %v to %v", c.IdempotencyWindow, time.Second, rheo.MaxDelay)
	}
	return c, nil
}

// Backend is a store in Redis. Make one with [New].
type Backend struct {
	client  redis.UniversalClient
	options Options
	closed  atomic.Bool
	life    lifetime.Context // ends with Close
	running lifetime.Crew

	streams  sync.Map // name → *stream
	groups   sync.Map // groupKey → *group
	hubs     sync.Map // name → *wake.Hub
	listener listener
}

var (
	_ rheo.Backend = (*Backend)(nil)
	_ rheo.Waiter  = (*Backend)(nil)
)

// New returns a Backend over the host's client, which stays the host's: it is never
// closed here. It must be a *redis.Client, also one for Sentinel, or a
// *redis.ClusterClient; one that reads from replicas, and
// a Ring, are [rheo.ErrUnsupported]. Nothing is asked of Redis yet.
func New(client redis.UniversalClient, opts *Options) (*Backend, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, rheo.Errorf(rheo.ErrInvalid, "the client is nil")
		}
	case *redis.ClusterClient:
		if c == nil {
			return nil, rheo.Errorf(rheo.ErrInvalid, "the client is nil")
		}
		if c.Options().ReadOnly {
			return nil, rheo.Errorf(rheo.ErrUnsupported,
				"the cluster client reads from replicas (ReadOnly, RouteByLatency or RouteRandomly), which may lack what was confirmed: give Rheo one that does not")
		}
	case nil:
		return nil, rheo.Errorf(rheo.ErrInvalid, "the client is nil")
	default:
		return nil, rheo.Errorf(rheo.ErrUnsupported, "the client is a %T; it must be a *redis.Client or a *redis.ClusterClient", client)
	}
	return &Backend{client: client, options: o, life: make(lifetime.Context)}, nil
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable:            true, // as far as the server's persistence goes
			Distributed:        true,
			Partitions:         true,
			ContiguousFrontier: true,
			Replay:             true,
			OrderedScan:        true,
		},
		Mechanisms: rheo.Mechanisms{
			Notifications: true, // within the process even without blocking reads
			NativeGroups:  true,
			NativePending: true,
			NativeReclaim: true,
			NativeLag:     true,
			BlockingReads: !b.options.WithoutBlockingReads,
		},
	}
}

// EnsureSchema implements [rheo.Backend]. There is nothing to prepare: it makes sure
// that the server can be reached and is new enough.
func (b *Backend) EnsureSchema(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	_, err := b.run(ctx, reading, b.call(checkScript, nil))
	return err
}

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	_, err := ask(ctx, b, func() (string, error) { return b.client.Ping(ctx).Result() })
	return err
}

// Close implements [rheo.Backend]. It ends what runs here, and the connections that
// wait for events; the client is the host's to close.
func (b *Backend) Close() error {
	if !b.closed.Swap(true) {
		close(b.life)
	}
	b.running.End()
	return nil
}

// Watch implements [rheo.Waiter].
func (b *Backend) Watch(stream string) (hints <-chan struct{}, stop func()) {
	hints, leave := b.hub(stream).Watch()
	arrived := b.listen(stream)
	return hints, func() {
		leave()
		arrived()
	}
}

func (b *Backend) hub(stream string) *wake.Hub {
	if found, ok := b.hubs.Load(stream); ok {
		return found.(*wake.Hub)
	}
	found, _ := b.hubs.LoadOrStore(stream, new(wake.Hub))
	return found.(*wake.Hub)
}

func (b *Backend) ready(ctx context.Context) error {
	if b.closed.Load() {
		return rheo.Errorf(rheo.ErrClosed, "the Redis store was closed")
	}
	if err := ctx.Err(); err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	return nil
}

// override is the scripts' argument for the time: empty has Redis look at its own
// clock.
func (b *Backend) override() string {
	if b.options.Clock == nil {
		return ""
	}
	return formatInt(b.options.Clock.Now().UnixMicro())
}

// now returns the store's time.
func (b *Backend) now(ctx context.Context) (now time.Time, err error) {
	if b.options.Clock != nil {
		return b.options.Clock.Now().UTC().Truncate(time.Microsecond), nil
	}
	now, err = ask(ctx, b, func() (time.Time, error) { return b.client.Time(ctx).Result() })
	return now.UTC(), err
}
