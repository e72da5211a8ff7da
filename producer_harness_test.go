package rheo_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rheo-go/rheo"
)

// producing is a producer under way.
type producing struct {
	*rheo.Producer
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func (b *bench) producer(o rheo.ProducerOptions) *rheo.Producer {
	b.t.Helper()
	o.Stream, o.Group = "stream", "group"
	producer, err := rheo.NewProducer(b.Instance, o)
	b.must(err)
	return producer
}

func (b *bench) produce(o rheo.ProducerOptions) *producing {
	b.t.Helper()
	p := &producing{Producer: b.producer(o), t: b.t}
	p.start()
	return p
}

// start runs the producer, again if it has run before.
func (p *producing) start() {
	ctx, cancel := context.WithCancel(p.t.Context())
	p.cancel, p.ended = cancel, make(chan struct{})
	go func() {
		defer close(p.ended)
		p.err = p.Run(ctx)
	}()
	synctest.Wait() // until then Receive speaks of the run before
}

// stop ends the producer's context and waits for Run, which must return nil.
func (p *producing) stop() {
	p.t.Helper()
	p.cancel()
	<-p.ended
	if p.err != nil {
		p.t.Errorf("Run: %v", p.err)
	}
}

func (p *producing) hasEnded() bool {
	synctest.Wait()
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *producing) receive(n int) []*rheo.Lease {
	p.t.Helper()
	leases, err := p.Receive(p.t.Context(), n)
	if err != nil {
		p.t.Fatal(err)
	}
	return leases
}

func (p *producing) expectInFlight(n int) {
	p.t.Helper()
	if got := p.InFlight(); got != n {
		p.t.Errorf("%d in flight, want %d", got, n)
	}
}

// received is what a Receive of another goroutine returns.
type received struct {
	leases []*rheo.Lease
	err    error
}

// receiveLater calls Receive in a goroutine of its own, and waits until it waits.
func (p *producing) receiveLater(ctx context.Context, n int) <-chan received {
	result := make(chan received, 1)
	go func() {
		leases, err := p.Receive(ctx, n)
		result <- received{leases, err}
	}()
	synctest.Wait()
	return result
}

func ids(leases []*rheo.Lease) (all []string) {
	for _, l := range leases {
		all = append(all, l.ID)
	}
	return all
}

// leased receives n leases.
func (b *bench) leased(p *producing, n int) []*rheo.Lease {
	b.t.Helper()
	leases := p.receive(n)
	if len(leases) != n {
		b.t.Fatalf("received %d leases, want %d", len(leases), n)
	}
	return leases
}

// mustFetch leases an event as another process would.
func mustFetch(b *bench) []*rheo.Lease {
	b.t.Helper()
	leases, err := b.Fetch(b.t.Context(), "stream", "group", rheo.FetchOptions{})
	b.must(err)
	return leases
}
