package rheo

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// The defaults of [GroupOptions] and [ProducerOptions].
const (
	DefaultMaxDemand     = 100
	DefaultPollInterval  = time.Second
	DefaultDrainTimeout  = 30 * time.Second
	DefaultSettleTimeout = 10 * time.Second
)

// consumerOptions is what either kind of runtime is configured with.
type consumerOptions ProducerOptions

func (o consumerOptions) withDefaults(i *Instance) consumerOptions {
	o.MaxDemand = cmp.Or(o.MaxDemand, DefaultMaxDemand)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, DefaultLeaseDuration)
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	o.Partitions = slices.Clone(o.Partitions)
	o.ConsumerID = cmp.Or(o.ConsumerID, i.consumerID)
	o.RetryBackoff = cmp.Or(o.RetryBackoff, Backoff{Min: time.Second, Max: time.Minute})
	o.StoreBackoff = cmp.Or(o.StoreBackoff, Backoff{Min: 100 * time.Millisecond, Max: 30 * time.Second})
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.SettleTimeout = cmp.Or(o.SettleTimeout, DefaultSettleTimeout)
	o.Logger = cmp.Or(o.Logger, i.logger)
	return o
}

// validate names the fields as those of the public struct that they came in.
func (o *consumerOptions) validate(public string, leastDemand int) error {
	for _, name := range []struct{ field, value string }{
		{"Stream", o.Stream}, {"Group", o.Group}, {"ConsumerID", o.ConsumerID},
	} {
		if err := checkName(public+"."+name.field, name.value); err != nil {
			return err
		}
	}
	if err := checkRange(public+".MaxDemand", int64(o.MaxDemand), int64(leastDemand), 2*MaxBatch); err != nil {
		return err
	}
	if o.LeaseDuration < MinLeaseDuration || o.LeaseDuration > MaxLeaseDuration {
		return invalidf(public+".LeaseDuration", "is %v, must be %v to %v", o.LeaseDuration, MinLeaseDuration, MaxLeaseDuration)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"PollInterval", o.PollInterval}, {"DrainTimeout", o.DrainTimeout}, {"SettleTimeout", o.SettleTimeout}} {
		if d.value < 0 {
			return invalidf(public+"."+d.field, "is %v, must not be negative", d.value)
		}
	}
	if err := o.RetryBackoff.check(public + ".RetryBackoff"); err != nil {
		return err
	}
	return o.StoreBackoff.check(public + ".StoreBackoff")
}

// identity is what at most one runtime of an instance may have at a time.
type identity struct{ stream, group string }

// runtime is what a Group or a Producer is to its host, whether it runs or not.
type runtime struct {
	kind     RuntimeKind
	instance *Instance
	options  consumerOptions

	mu  sync.Mutex
	now *consumer // nil while it does not run
}

// run makes a consumer, and what work makes of it, and runs it.
func (rt *runtime) run(ctx context.Context, begin func(*consumer) work) error {
	ctx, beginDrain := context.WithCancel(ctx)
	defer beginDrain()
	c := newConsumer(rt.instance, rt.kind, rt.options, ctx.Done(), beginDrain)
	release, err := rt.instance.claimIdentity(c)
	if err != nil {
		return err
	}
	defer release()
	w := begin(c)
	rt.set(c)
	defer rt.set(nil)
	return c.run(ctx, w)
}

func (rt *runtime) set(c *consumer) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.now = c
}

// current returns the run under way, or nil.
func (rt *runtime) current() *consumer {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.now
}

func (rt *runtime) drain(ctx context.Context) error {
	if c := rt.current(); c != nil {
		return c.drain(ctx)
	}
	return nil
}

func (rt *runtime) inFlight() int {
	if c := rt.current(); c != nil {
		return c.flight.Len()
	}
	return 0
}

// claimIdentity reserves the consumer's identity until release is called.
func (i *Instance) claimIdentity(c *consumer) (release func(), err error) {
	id := identity{c.options.Stream, c.options.Group}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, taken := i.running[id]; taken {
		return nil, Errorf(ErrAlreadyStarted, "group %q of stream %q runs in this process already", id.group, id.stream)
	}
	i.running[id] = c
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.running, id)
	}, nil
}

// Runtimes tells what each [Group] and [Producer] of the instance that runs now
// holds, by stream and group.
func (i *Instance) Runtimes() []RuntimeInfo {
	i.mu.Lock()
	running := slices.Collect(maps.Values(i.running))
	i.mu.Unlock()
	infos := make([]RuntimeInfo, len(running))
	for at, c := range running {
		infos[at] = RuntimeInfo{
			Runtime: c.report.runtime.Runtime, Stream: c.options.Stream, Group: c.options.Group, ConsumerID: c.options.ConsumerID,
			InFlight: c.flight.Len(), MaxDemand: c.options.MaxDemand, Draining: c.isDraining(),
		}
	}
	slices.SortFunc(infos, func(a, b RuntimeInfo) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Group, b.Group))
	})
	return infos
}
