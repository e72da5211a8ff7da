package mongo

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/lifetime"
	"github.com/rheo-go/rheo/wake"
)

// Options configures a [Backend]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// Prefix begins the name of every collection: letters, digits, '_', '-' and
	// '.', at most 64 of them, not "system." in front. Default [DefaultPrefix].
	Prefix string
	// PayloadIndex has EnsureSchema make an index on the values in payload and
	// metadata, for equality in queries. It costs appends. Once it is there, every
	// process that starts fills and uses it; what was appended before is walked. See
	// docs/guides/mongo.md.
	PayloadIndex bool
	// WithoutChangeStream keeps the backend from opening a change stream; groups
	// then find events of other processes by polling. It is for roles that may not
	// read one, and makes no difference on a standalone server.
	WithoutChangeStream bool
	// Clock is for tests alone: it takes the place of the server's clock.
	Clock rheo.Clock
}

// DefaultPrefix is what Options.Prefix is if it is empty.
const DefaultPrefix = "rheo_"

func (o *Options) complete() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	return c, checkPrefix(c.Prefix)
}

func checkPrefix(prefix string) error {
	const limit = 64
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r)
	}
	switch {
	case len(prefix) > limit:
		return rheo.Errorf(rheo.ErrInvalid, "Options.Prefix has %d bytes, the limit is %d", len(prefix), limit)
	case strings.ContainsFunc(prefix, func(r rune) bool { return !good(r) }):
		return rheo.Errorf(rheo.ErrInvalid, "Options.Prefix %q must have letters, digits, '_', '-' and '.' only", prefix)
	case strings.HasPrefix(prefix, "system.") || strings.HasPrefix(prefix, ".") || strings.Contains(prefix, ".."):
		return rheo.Errorf(rheo.ErrInvalid, "Options.Prefix %q begins no name that MongoDB lets a collection have", prefix)
	}
	return nil
}

// Backend is a store in a MongoDB database. Make one with [New].
type Backend struct {
	database    *mongo.Database
	collections collections
	options     Options
	clock       storeClock
	server      deployment
	schema      schemaState
	closed      atomic.Bool
	life        lifetime.Context // ends with Close
	running     lifetime.Crew

	streams  sync.Map // name → *stream
	groups   sync.Map // groupKey → *group
	hubs     sync.Map // name → *wake.Hub
	commits  commitCache
	listener listener
}

var (
	_ rheo.Backend = (*Backend)(nil)
	_ rheo.Waiter  = (*Backend)(nil)
)

// New returns a Backend over the host's database. The client stays the host's: it
// is never disconnected here. Nothing is asked of the server yet. Prepare the
// database once with EnsureSchema.
//
// The client's read and write concerns, its read preference and its BSON options
// do not matter: what durability needs is set here. Its timeouts, retries, pool and
// monitors do.
func New(database *mongo.Database, opts *Options) (*Backend, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if database == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "the database is nil")
	}
	b := &Backend{database: database, options: o, life: make(lifetime.Context)}
	b.collections = collectionsOf(database, o.Prefix)
	b.clock.override = o.Clock
	return b, nil
}

// Capabilities implements [rheo.Backend]. The transactional guarantees are not
// declared, since whether a deployment has transactions is not known before it is
// asked; [AppendSession] and [SettleSession] work where it has.
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable:            true,
			Distributed:        true,
			Partitions:         true,
			ContiguousFrontier: true,
			Replay:             true,
			OrderedScan:        true,
			SecondaryIndexes:   true,
			IdempotentAppend:   true,
		},
		Mechanisms: rheo.Mechanisms{
			CompareAndSet: true,
			Notifications: true, // within the process even without a change stream
			ChangeFeed:    !b.options.WithoutChangeStream,
		},
	}
}

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	_, err = b.hello(ctx)
	return err
}

// Close implements [rheo.Backend]. It ends what runs here, and the change stream;
// the client is the host's to disconnect.
func (b *Backend) Close() error {
	if !b.closed.Swap(true) {
		close(b.life)
	}
	b.running.End()
	return nil
}

// Watch implements [rheo.Waiter].
func (b *Backend) Watch(stream string) (hints <-chan struct{}, stop func()) {
	b.listen()
	return b.hub(stream).Watch()
}

func (b *Backend) hub(stream string) *wake.Hub {
	if found, ok := b.hubs.Load(stream); ok {
		return found.(*wake.Hub)
	}
	found, _ := b.hubs.LoadOrStore(stream, new(wake.Hub))
	return found.(*wake.Hub)
}

// enter begins every call. A session in the context is the host's own business,
// unless the call came through [AppendSession] or [SettleSession].
func (b *Backend) enter(ctx context.Context) (context.Context, error) {
	if b.closed.Load() {
		return nil, rheo.Errorf(rheo.ErrClosed, "the MongoDB store was closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	if hostSession(ctx) == nil {
		ctx = withoutSession(ctx)
	}
	return ctx, nil
}
