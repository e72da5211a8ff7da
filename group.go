package rheo

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Delivery is one event as a group's handler sees it: its lease, with the event
// inside.
type Delivery struct {
	*Lease
	of *delivered // nil if it is of the host's making
}

// Lost returns nil as long as the lease is held, as far as this process knows, and
// an error that wraps [ErrStaleLease] once it is lost: the outcome counts no more.
func (d *Delivery) Lost() error {
	if d.of == nil {
		return nil
	}
	return d.of.lost()
}

// Handler handles one delivery. nil acks it. [Reject] makes it a dead letter,
// [RetryAfter] makes it available after a delay, [Release] gives it back without
// spending an attempt. Any other error, and a panic, nacks it with the group's
// RetryBackoff.
//
// ctx ends when the lease is lost, with [ErrStaleLease] as its cause, and when
// the time to drain is over, with [ErrClosed]; not when the group is told to
// stop. Up to GroupOptions.Concurrency handlers run at once.
type Handler func(ctx context.Context, d *Delivery) error

// DefaultConcurrency is GroupOptions.Concurrency if none is given.
const DefaultConcurrency = 10

// GroupOptions configures a [Group]. Stream, Group and one of Handler and
// BatchHandler are required.
type GroupOptions struct {
	Stream  string
	Group   string
	Handler Handler
	// BatchHandler takes Handler's place: it is handed up to BatchSize deliveries, or
	// what has come within BatchWait since the first of them. While no handler is
	// free, a window grows beyond BatchWait.
	BatchHandler BatchHandler
	// BatchSize is the most deliveries of a window. Default [DefaultBatchSize].
	BatchSize int
	// BatchWait is how long a window that is not full waits. Default
	// [DefaultBatchWait].
	BatchWait time.Duration
	// Concurrency bounds the handlers that run at once. Default
	// [DefaultConcurrency].
	Concurrency int
	// MaxDemand bounds the leases held: handled, or fetched ahead. Default
	// [DefaultMaxDemand], or Concurrency if that is more, times BatchSize for a
	// BatchHandler; at least Concurrency and BatchSize, at most [MaxBatch] times two.
	MaxDemand int
	// LeaseDuration is how long a lease lasts unless renewed, which it is at
	// half that for as long as its handler runs. Default [DefaultLeaseDuration].
	LeaseDuration time.Duration
	// PollInterval is how long to wait, when nothing was due, before looking
	// again; a backend that is a [Waiter] usually cuts it short. Default
	// [DefaultPollInterval].
	PollInterval time.Duration
	// Partitions limits the runtime to some of the group's. Empty means all.
	Partitions []int
	// ConsumerID is who holds the leases. Default [Options].ConsumerID.
	ConsumerID string
	// RetryBackoff is how long a nacked event waits, by its attempt. Default 1 s,
	// doubling up to 1 min.
	RetryBackoff Backoff
	// StoreBackoff is how long to wait after a failed fetch, by the number of
	// failures in a row. Default 100 ms, doubling up to 30 s.
	StoreBackoff Backoff
	// DrainTimeout bounds how long Run waits for handlers once it drains, before it
	// ends their contexts. Default [DefaultDrainTimeout].
	DrainTimeout time.Duration
	// SettleTimeout bounds each call to the store. Default
	// [DefaultSettleTimeout].
	SettleTimeout time.Duration
	// Logger takes what the runtime reports. Default the instance's.
	Logger *slog.Logger
}

func (o GroupOptions) withDefaults() GroupOptions {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	if o.BatchHandler != nil {
		o.BatchSize = cmp.Or(o.BatchSize, DefaultBatchSize)
		o.BatchWait = cmp.Or(o.BatchWait, DefaultBatchWait)
	}
	busy := min(o.Concurrency*max(o.BatchSize, 1), 2*MaxBatch)
	o.MaxDemand = cmp.Or(o.MaxDemand, max(DefaultMaxDemand, busy))
	return o
}

func (o *GroupOptions) validate() error {
	switch {
	case o.Handler == nil && o.BatchHandler == nil:
		return invalidf("GroupOptions.Handler", "must not be nil if BatchHandler is")
	case o.Handler != nil && o.BatchHandler != nil:
		return invalidf("GroupOptions.BatchHandler", "must be nil if Handler is not")
	case o.BatchHandler == nil && (o.BatchSize != 0 || o.BatchWait != 0):
		return invalidf("GroupOptions.BatchSize and BatchWait", "must be 0 without a BatchHandler")
	case o.BatchWait < 0:
		return invalidf("GroupOptions.BatchWait", "is %v, must not be negative", o.BatchWait)
	}
	if o.BatchHandler != nil {
		if err := checkRange("GroupOptions.BatchSize", int64(o.BatchSize), 1, MaxBatch); err != nil {
			return err
		}
	}
	return checkRange("GroupOptions.Concurrency", int64(o.Concurrency), 1, MaxBatch)
}

// consumer returns what does not concern handlers.
func (o *GroupOptions) consumer() consumerOptions {
	return consumerOptions{
		Stream: o.Stream, Group: o.Group, MaxDemand: o.MaxDemand,
		LeaseDuration: o.LeaseDuration, PollInterval: o.PollInterval,
		Partitions: o.Partitions, ConsumerID: o.ConsumerID,
		RetryBackoff: o.RetryBackoff, StoreBackoff: o.StoreBackoff,
		DrainTimeout: o.DrainTimeout, SettleTimeout: o.SettleTimeout,
		Logger: o.Logger,
	}
}

// Group is a consumer group's runtime in this process: it leases deliveries,
// hands them to the handler, renews what takes long, and settles what is done.
// Many processes may run the same group on a distributed backend; within a
// process, one at a time. Make one with [NewGroup]; it is safe for concurrent
// use.
type Group struct {
	runtime
	handler     Handler // or batchHandler
	concurrency int

	batchHandler BatchHandler
	batchSize    int
	batchWait    time.Duration
}

// NewGroup returns a runtime for a group that [Instance.CreateGroup] has made, or
// will have made when [Group.Run] starts. It does no I/O.
func NewGroup(instance *Instance, options GroupOptions) (*Group, error) {
	if instance == nil {
		return nil, invalidf("instance", "must not be nil")
	}
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	shared := options.consumer().withDefaults(instance)
	if err := shared.validate("GroupOptions", max(options.Concurrency, options.BatchSize)); err != nil {
		return nil, err
	}
	return &Group{
		runtime: runtime{kind: KindGroup, instance: instance, options: shared},
		handler: options.Handler, concurrency: options.Concurrency,
		batchHandler: options.BatchHandler, batchSize: options.BatchSize, batchWait: options.BatchWait,
	}, nil
}

// Run consumes until ctx ends or [Group.Drain] is called, and then drains: it
// fetches no more, gives back what no handler has started, waits for the handlers
// that run, for GroupOptions.DrainTimeout at most before it ends their contexts,
// and settles their outcomes. It returns only when every goroutine it started
// has, with nil.
//
// A store that is away is waited for. What cannot be waited out is returned after
// a drain: [ErrStreamNotFound], [ErrGroupNotFound], [ErrInvalid], [ErrClosed]. If
// this process runs the group already, as a Group or a [Producer], the error is
// [ErrAlreadyStarted].
func (g *Group) Run(ctx context.Context) error {
	return g.run(ctx, func(c *consumer) work { return newGroupRun(c, g) })
}

// Serve is [Group.Run] under the name that suture.Service asks for.
func (g *Group) Serve(ctx context.Context) error { return g.Run(ctx) }

// Drain makes Run drain and waits until nothing is in flight, or until ctx ends,
// whose error it then returns while the drain goes on. A second Drain of the same
// run is refused with [ErrAlreadyDraining]. A group that does not run has nothing
// to drain.
func (g *Group) Drain(ctx context.Context) error { return g.drain(ctx) }

// InFlight is how many leases the runtime holds now.
func (g *Group) InFlight() int { return g.inFlight() }
