package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rheo-go/rheo"
)

// Options configures a [Backend]. The zero value, or a nil pointer, takes every
// default.
type Options struct {
	// Prefix stands before the name of every table, view and index. Stores with
	// different prefixes may share a database. Default "rheo_".
	Prefix string
	// Clock judges lease expiry. Default [rheo.SystemClock]. All processes on one
	// file are on one machine, and so share that.
	Clock rheo.Clock
	// WatchInterval is how often a watched stream is asked whether another
	// process has appended to it. Default 10 ms; negative turns it off.
	WatchInterval time.Duration
}

// DefaultPrefix is what Options.Prefix is if it is empty.
const DefaultPrefix = "rheo_"

const (
	maxPrefixBytes       = 100
	defaultWatchInterval = 10 * time.Millisecond
)

func (o *Options) complete() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.WatchInterval = cmp.Or(c.WatchInterval, defaultWatchInterval)
	c.Clock = cmp.Or(c.Clock, rheo.SystemClock())
	switch {
	case len(c.Prefix) > maxPrefixBytes:
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix has %d bytes, the limit is %d", len(c.Prefix), maxPrefixBytes)
	case !utf8.ValidString(c.Prefix) || strings.ContainsRune(c.Prefix, 0):
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix must be UTF-8 without NUL")
	case strings.HasPrefix(strings.ToLower(c.Prefix), "sqlite_"):
		return c, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix must not begin with sqlite_, which SQLite keeps for itself")
	}
	return c, nil
}

// Backend is a store in a SQLite database. Make one with [New].
type Backend struct {
	db       *sql.DB
	clock    rheo.Clock
	names    names
	pool     *session // reads on any connection
	writer   *writer
	watchers *watchers

	closed  atomic.Bool
	checked atomic.Bool // the schema is there, and one that we know
	streams sync.Map    // name → *stream; what is in it never changes
	groups  sync.Map    // groupName → *group; likewise
}

// New returns a backend on the database. It does no I/O: call
// [Backend.EnsureSchema] before the first use. The database stays the host's, who
// closes it after the backend.
func New(db *sql.DB, opts *Options) (*Backend, error) {
	if db == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "db must not be nil")
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	n := names{o.Prefix}
	texts, err := newStatements(n)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "reading the embedded statements")
	}
	b := &Backend{db: db, clock: o.Clock, names: n}
	b.pool = &session{q: db, texts: texts, prepares: true, patience: math.MaxInt64}
	b.writer = newWriter(db, texts)
	b.watchers = &watchers{db: db, texts: texts, interval: o.WatchInterval}
	return b, nil
}

// Capabilities implements [rheo.Backend].
func (b *Backend) Capabilities() rheo.Capabilities {
	return rheo.Capabilities{
		Guarantees: rheo.Guarantees{
			Durable:             true,
			Partitions:          true,
			ContiguousFrontier:  true,
			Replay:              true,
			OrderedScan:         true,
			IdempotentAppend:    true,
			AtomicBatch:         true,
			TransactionalAppend: true,
			TransactionalSettle: true,
		},
		Mechanisms: rheo.Mechanisms{Notifications: true},
	}
}

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	var one int
	_, err := b.pool.one(ctx, "ping", []any{&one})
	return failure(reading, err)
}

// Close implements [rheo.Backend]. It ends what the backend has started, and
// leaves the database open: that is the host's.
func (b *Backend) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	b.watchers.close()
	b.writer.close()
	b.pool.close()
	return nil
}

// Watch implements [rheo.Waiter]. What this process does is told at once, and what
// others append within [Options].WatchInterval. The first watch takes a connection
// of the pool, which the last stop gives back; a pool of one connection is not
// taken from, and then others' appends are found by polling the group alone.
func (b *Backend) Watch(stream string) (hints <-chan struct{}, stop func()) {
	return b.watchers.watch(stream)
}

func (b *Backend) now() time.Time { return b.clock.Now().UTC().Truncate(time.Microsecond) }

// open checks that a call may go on.
func (b *Backend) open(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed()
	}
	if err := ctx.Err(); err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before the call")
	}
	return nil
}

// ready is open, and checks the schema the first time.
func (b *Backend) ready(ctx context.Context) error {
	if err := b.open(ctx); err != nil || b.checked.Load() {
		return err
	}
	version, err := b.schemaVersion(ctx, b.reader(ctx))
	if err != nil {
		return err
	}
	if err := b.checkVersion(version); err != nil {
		return err
	}
	b.checked.Store(true)
	return nil
}

// reader is where a call reads: the host's transaction, if it came with one.
func (b *Backend) reader(ctx context.Context) *session {
	if tx := hostTx(ctx); tx != nil {
		return &session{q: tx, texts: b.pool.texts, patience: hostPatience}
	}
	return b.pool
}

func errClosed() error { return rheo.Errorf(rheo.ErrClosed, "the SQLite backend was closed") }
