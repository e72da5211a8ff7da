package rheo

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// Options configures an [Instance]. The zero value, or a nil pointer, takes
// every default.
type Options struct {
	// Name tells instances apart in logs and telemetry. Default "rheo".
	Name string
	// Logger takes what the runtimes report. Default [slog.Default].
	Logger *slog.Logger
	// Router places keyed events on partitions. Default [PHash2].
	Router Router
	// MaxPayload is the largest payload accepted, in bytes. Default
	// [MaxPayloadDefault].
	MaxPayload int
	// ConsumerID is what this process' leases carry unless a call names
	// another. Default: host name, process ID and a random part.
	ConsumerID string
	// Clock gives events their default timestamp. Default [SystemClock].
	Clock Clock
	// Observer is told of what the instance and its runtimes do. Default nobody.
	Observer Observer
}

// Instance is the log and the groups of one backend: the entry to everything.
// Any number may live in one process, over one backend or several. It is safe
// for concurrent use.
type Instance struct {
	backend    Backend // as the host gave it, or observed
	given      Backend // as the host gave it
	observers  observers
	name       string
	logger     *slog.Logger
	router     Router
	maxPayload int
	consumerID string
	clock      Clock
	ids        idSource

	closed          atomic.Bool
	partitionCounts sync.Map // stream name → int

	mu      sync.Mutex
	running map[identity]*consumer // the runtimes under way
}

// New returns an instance over the backend. It does no I/O: call
// [Instance.EnsureSchema] before the first use of a store that needs one.
func New(backend Backend, opts *Options) (*Instance, error) {
	if backend == nil {
		return nil, invalidf("backend", "must not be nil")
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	observed := backend
	if o.Observer != nil {
		observed = &observedBackend{Backend: backend, observer: o.Observer, instance: o.Name}
	}
	return &Instance{
		backend:    observed,
		given:      backend,
		observers:  observersOf(o.Observer),
		name:       o.Name,
		logger:     o.Logger.With("instance", o.Name),
		router:     o.Router,
		maxPayload: o.MaxPayload,
		consumerID: o.ConsumerID,
		clock:      o.Clock,
		running:    make(map[identity]*consumer),
	}, nil
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "rheo")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.MaxPayload = cmp.Or(o.MaxPayload, MaxPayloadDefault)
	o.ConsumerID = cmp.Or(o.ConsumerID, defaultConsumerID())
	if o.Router == nil {
		o.Router = PHash2
	}
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	return o
}

func (o Options) validate() error {
	if err := checkName("Options.Name", o.Name); err != nil {
		return err
	}
	if err := checkName("Options.ConsumerID", o.ConsumerID); err != nil {
		return err
	}
	const maxPayloadLimit = 1 << 30
	return checkRange("Options.MaxPayload", int64(o.MaxPayload), 1, maxPayloadLimit)
}

func defaultConsumerID() string {
	host, err := os.Hostname()
	if err != nil || checkName("host", host) != nil || len(host) > 200 {
		host = "host"
	}
	return host + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:6]
}

// Name returns the instance's name.
func (i *Instance) Name() string { return i.name }

// Backend returns the backend, for calls that belong to one kind of store alone.
func (i *Instance) Backend() Backend { return i.given }

// Capabilities returns what the backend guarantees, and by what means.
func (i *Instance) Capabilities() Capabilities { return i.backend.Capabilities() }

// EnsureSchema prepares the store: tables, indexes, whatever it needs. It is
// idempotent, and safe when many processes start at once.
func (i *Instance) EnsureSchema(ctx context.Context) error {
	if err := i.ready(ctx); err != nil {
		return err
	}
	return i.backend.EnsureSchema(ctx)
}

// Ping asks the store for a sign of life.
func (i *Instance) Ping(ctx context.Context) error {
	if err := i.ready(ctx); err != nil {
		return err
	}
	return i.backend.Ping(ctx)
}

// Close closes what the backend itself opened, never a pool or client that the
// host lent it. Later calls return [ErrClosed]. Stop the runtimes first: one
// that still runs ends with ErrClosed. Closing twice is harmless.
func (i *Instance) Close() error {
	if i.closed.Swap(true) {
		return nil
	}
	return i.backend.Close()
}

// ready is the first step of every call: a call on a closed instance or with a
// finished context changes nothing.
func (i *Instance) ready(ctx context.Context) error {
	if i.closed.Load() {
		return Errorf(ErrClosed, "instance %q", i.name)
	}
	if err := ctx.Err(); err != nil {
		return &Error{Kind: ErrUnavailable, Detail: "the context ended before the call", Cause: err}
	}
	return nil
}
