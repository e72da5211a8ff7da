package postgres

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/lifetime"
	"github.com/rheo-go/rheo/wake"
)

// Options configures a [Backend]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// Prefix begins the name of every table, index, function and view. A schema
	// may stand before it, with a dot: "events.rheo_". Default "rheo_".
	Prefix string
	// WithoutNotify turns LISTEN and NOTIFY off: no connection of our own is
	// opened, and consumers find new events by polling. It has to be set where
	// the pool leads through a pooler in transaction mode.
	WithoutNotify bool
	// PayloadIndex has EnsureSchema make an index on payload and metadata, for
	// equality in queries. It costs appends; see docs/guides/postgres.md.
	PayloadIndex bool
	// Clock is for tests alone: it takes the place of the database's clock.
	Clock rheo.Clock
}

// DefaultPrefix is what Options.Prefix is if it is empty.
const DefaultPrefix = "rheo_"

func (o *Options) complete() (Options, names, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	n, err := parsePrefix(c.Prefix)
	return c, n, err
}

// Backend is a store in a PostgreSQL database. Make one with [New].
type Backend struct {
	pool    *pgxpool.Pool
	names   names
	options Options
	clock   storeClock
	closed  atomic.Bool
	life    lifetime.Context // ends with Close
	running lifetime.Crew

	texts    sync.Map // statement → string, the names filled in
	streams  sync.Map // name → *stream
	groups   sync.Map // groupKey → *group
	ledgers  ledgerCache
	hubs     sync.Map // name → *wake.Hub
	listener listener
	notifier notifier
}

var (
	_ rheo.Backend = (*Backend)(nil)
	_ rheo.Waiter  = (*Backend)(nil)
)

// New returns a Backend over the host's pool, which stays the host's: it is never
// closed here. Nothing is asked of the database yet. Prepare it once with
// EnsureSchema.
func New(pool *pgxpool.Pool, opts *Options) (*Backend, error) {
	o, n, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "the pool is nil")
	}
	b := &Backend{pool: pool, names: n, options: o, life: make(lifetime.Context)}
	b.clock.override = o.Clock
	return b, nil
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable:             true,
			Distributed:         true,
			Partitions:          true,
			ContiguousFrontier:  true,
			Replay:              true,
			OrderedScan:         true,
			SecondaryIndexes:    b.options.PayloadIndex,
			IdempotentAppend:    true,
			AtomicBatch:         true,
			TransactionalAppend: true,
			TransactionalSettle: true,
		},
		Mechanisms: rheo.Mechanisms{
			CompareAndSet: true,
			Notifications: true, // within the process even without LISTEN
		},
	}
}

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if err := b.pool.Ping(ctx); err != nil {
		return b.failure(err, reading)
	}
	return nil
}

// Close implements [rheo.Backend]. It ends what runs here, and the connection
// that listens; the pool is the host's to close.
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

// wake hints those who wait for the stream, here and in other processes.
func (b *Backend) wake(stream string) {
	b.hub(stream).Wake()
	b.tellOthers(stream)
}

// text returns a statement with our names in it.
func (b *Backend) text(s statement) string {
	if found, ok := b.texts.Load(s); ok {
		return found.(string)
	}
	filled := b.names.fill(s)
	b.texts.Store(s, filled)
	return filled
}

func (b *Backend) ready(ctx context.Context) error {
	if b.closed.Load() {
		return rheo.Errorf(rheo.ErrClosed, "the PostgreSQL store was closed")
	}
	if err := ctx.Err(); err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	return nil
}
