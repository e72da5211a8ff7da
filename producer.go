package rheo

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// ProducerOptions configures a [Producer]. Stream and Group are required.
type ProducerOptions struct {
	Stream string
	Group  string
	// MaxDemand bounds the leases held: received and not yet settled, whatever
	// more is asked for. Default [DefaultMaxDemand]; at most [MaxBatch] times two.
	MaxDemand int
	// RetryBackoff is how long an event that [Producer.Finish] nacks waits, by its
	// attempt. Default 1 s, doubling up to 1 min.
	RetryBackoff Backoff
	// DrainTimeout bounds how long Run waits, once it drains, for what was received
	// to be settled, before it ends the contexts of the rest. Default
	// [DefaultDrainTimeout].
	DrainTimeout time.Duration
	// SettleTimeout bounds each call to the store, and how long Run waits for
	// settlements once the contexts have ended. Default [DefaultSettleTimeout].
	SettleTimeout time.Duration

	// The others are those of [GroupOptions], with the same defaults; a lease is
	// renewed until it is settled.

	LeaseDuration time.Duration
	PollInterval  time.Duration
	Partitions    []int
	ConsumerID    string
	StoreBackoff  Backoff
	Logger        *slog.Logger
}

// Producer is a consumer group's runtime for pipelines that pull: it turns demand
// into leases, renews what has been received for as long as it is not settled,
// and settles what it is told to. [Group] is the one for a handler.
//
// [Producer.Run] must run; [Producer.Receive] and [Producer.All] wait for it. Each
// lease received is settled through the producer, in any order and from any
// goroutine, or through a transaction of the host's and then confirmed with
// [Producer.Confirm]; one that never is stays leased, and counts against
// MaxDemand, until it is lost or the producer has drained. In a group with
// [OrderingPartition] a nack or release gives back also what was received behind
// it in the partition, so that it comes again in order.
//
// Make one with [NewProducer]; it is safe for concurrent use.
type Producer struct {
	runtime

	stateMu sync.Mutex
	taking  *producerRun  // nil while it does not run
	over    error         // why Receive fails after a run; nil before the first
	changed chan struct{} // closed, and made anew, when one of these has changed
}

// NewProducer returns a runtime for a group that [Instance.CreateGroup] has made,
// or will have made when [Producer.Run] starts. It does no I/O.
func NewProducer(instance *Instance, options ProducerOptions) (*Producer, error) {
	if instance == nil {
		return nil, invalidf("instance", "must not be nil")
	}
	shared := consumerOptions(options).withDefaults(instance)
	if err := shared.validate("ProducerOptions", 1); err != nil {
		return nil, err
	}
	return &Producer{
		runtime: runtime{kind: KindProducer, instance: instance, options: shared},
		changed: make(chan struct{}),
	}, nil
}

// Run leases, renews and settles until ctx ends or [Producer.Drain] is called, and
// then drains: it fetches no more, goes on renewing and settling what was received,
// for ProducerOptions.DrainTimeout at most before it ends the contexts of the rest
// (see [Producer.Context]) and SettleTimeout more before it leaves the rest to
// expire. It returns only when every goroutine it started has, with nil.
//
// Its errors are those of [Group.Run]; at most one Group or Producer of an
// instance runs for a group at a time.
func (p *Producer) Run(ctx context.Context) error {
	err := p.run(ctx, func(c *consumer) work {
		r := newProducerRun(c)
		p.setState(r, nil)
		return r
	})
	if !errors.Is(err, ErrAlreadyStarted) {
		p.setState(nil, closedError(err))
	}
	return err
}

// Serve is [Producer.Run] under the name that suture.Service asks for.
func (p *Producer) Serve(ctx context.Context) error { return p.Run(ctx) }

// Drain ends Receive, which returns [ErrClosed] from now on, and waits until all
// that was received is settled, or until ctx ends, whose error it then returns
// while the drain goes on. A second Drain of the same run is refused with
// [ErrAlreadyDraining]. A producer that does not run has nothing to drain.
func (p *Producer) Drain(ctx context.Context) error { return p.drain(ctx) }

// InFlight is how many leases the producer holds now.
func (p *Producer) InFlight() int { return p.inFlight() }

// Receive waits until something is due and returns up to n leases, n being 1 to
// [MaxBatch], as far as MaxDemand leaves room. Several callers are served one
// after the other. Nothing is leased that nobody has asked for: what a fetch
// brings when its caller is gone goes to the next, or is given back at once.
//
// When ctx ends it returns ctx's error. Before [Producer.Run] it waits for it;
// once the producer drains, and after it, the error is [ErrClosed], and also
// that with which Run failed.
func (p *Producer) Receive(ctx context.Context, n int) ([]*Lease, error) {
	if err := checkRange("n", int64(n), 1, MaxBatch); err != nil {
		return nil, err
	}
	for {
		received, _, err := p.receive(ctx, n)
		if err != nil {
			return nil, err
		}
		leases := make([]*Lease, 0, len(received))
		for _, d := range received {
			if d.begin(nil) { // else it was given back, or lost, meanwhile
				leases = append(leases, d.delivery.Lease)
			}
		}
		if len(leases) > 0 {
			return leases, nil
		}
	}
}

// All yields leases as they become due, holding up to MaxDemand of them ahead. It
// ends when the producer drains; when ctx ends, or the run has failed, after it
// has yielded that error. What it holds but has not yielded when the loop ends, or
// the producer drains, is given back without spending an attempt.
func (p *Producer) All(ctx context.Context) iter.Seq2[*Lease, error] {
	return func(yield func(*Lease, error) bool) {
		for {
			received, r, err := p.receive(ctx, min(p.options.MaxDemand, MaxBatch))
			if err == nil {
				err = r.yieldAll(ctx, received, yield)
			}
			switch {
			case errors.Is(err, errBreak), errors.Is(err, errDrained):
				return
			case err != nil:
				yield(nil, err)
				return
			}
		}
	}
}

// receive waits for a run, and then for what it fetches.
func (p *Producer) receive(ctx context.Context, n int) ([]*delivered, *producerRun, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		r, changed, err := p.state()
		if err != nil {
			return nil, nil, err
		}
		if r != nil {
			received, err := r.receive(ctx, n)
			return received, r, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (p *Producer) state() (r *producerRun, changed <-chan struct{}, err error) {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	return p.taking, p.changed, p.over
}

func (p *Producer) setState(r *producerRun, over error) {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	p.taking, p.over = r, over
	close(p.changed)
	p.changed = make(chan struct{})
}

// errDrained is what Receive returns once a run that has not failed drains.
var errDrained = Errorf(ErrClosed, "the producer drains or has ended; Run it again to receive more")

// closedError is what Receive returns once a run drains; cause is why it failed,
// or nil.
func closedError(cause error) error {
	if cause == nil {
		return errDrained
	}
	return WrapError(ErrClosed, cause, "the producer has failed; Run it again to receive more")
}
