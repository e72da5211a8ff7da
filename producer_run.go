package rheo

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// producerRun is one run of a [Producer]: it adds to the consumer those who wait
// for leases.
type producerRun struct {
	*consumer

	mu       sync.Mutex
	requests []*request // in the order in which they are served
}

// request is a caller's demand.
type request struct {
	n     int
	reply chan []*delivered // holds one
}

func newProducerRun(c *consumer) *producerRun { return &producerRun{consumer: c} }

// receive waits for the next leases that are this caller's.
func (r *producerRun) receive(ctx context.Context, n int) ([]*delivered, error) {
	q := r.ask(n)
	select {
	case received := <-q.reply:
		return received, nil
	case <-ctx.Done():
	case <-r.draining:
	}
	if !r.withdraw(q) { // it has been served just now
		return <-q.reply, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, r.closed()
}

func (r *producerRun) closed() error {
	if err := r.failure.Load(); err != nil {
		return closedError(*err)
	}
	return closedError(nil)
}

func (r *producerRun) ask(n int) *request {
	q := &request{n: n, reply: make(chan []*delivered, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	r.flight.Nudge()
	return q
}

// withdraw reports false if the request has been served.
func (r *producerRun) withdraw(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.requests, q)
	if at < 0 {
		return false
	}
	r.requests = slices.Delete(r.requests, at, at+1)
	return true
}

func (r *producerRun) start(context.Context) {}

// demand is what has been asked for. In an ordered group one caller is served at a
// time: what is fetched of a partition must not be shared out.
func (r *producerRun) demand() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := 0
	for _, q := range r.requests {
		asked += q.n
		if r.ordered {
			break
		}
	}
	return min(asked, r.flight.Free(), MaxBatch)
}

// accept serves who waits, and gives back what is for nobody.
func (r *producerRun) accept(parts [][]*delivered) {
	left := r.serve(slices.Concat(parts...))
	r.settler.submit(releases(left)...)
}

func (r *producerRun) serve(fetched []*delivered) (left []*delivered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(fetched) > 0 && len(r.requests) > 0 {
		q := r.requests[0]
		r.requests = slices.Delete(r.requests, 0, 1)
		n := min(q.n, len(fetched))
		q.reply <- fetched[:n:n]
		fetched = fetched[n:]
		if r.ordered {
			break
		}
	}
	return fetched
}

// finish waits until all that was received is settled, lost, or left to expire.
func (r *producerRun) finish() {
	for r.flight.Len() > 0 {
		<-r.flight.Freed()
	}
}

// expire leaves to who reacts to the end of the contexts the time to settle, and
// the rest to its leases' expiry.
func (r *producerRun) expire(cause error, finished <-chan struct{}) {
	for _, d := range r.flight.All() {
		d.endContexts(cause)
	}
	timer := time.NewTimer(r.options.SettleTimeout)
	defer timer.Stop()
	select {
	case <-finished:
	case <-timer.C:
		left := r.flight.All()
		r.report.logger.Warn("leases not settled when the drain was over; they expire", slog.Int("leases", len(left)))
		r.flight.land(left)
	}
}

// errBreak is a loop that the host has left.
var errBreak = errors.New("the loop was left")

// yieldAll yields what was received until the loop is left or ctx ends, and gives
// back the rest, also if the loop's body does not return.
func (r *producerRun) yieldAll(ctx context.Context, received []*delivered, yield func(*Lease, error) bool) error {
	next := 0
	defer func() { r.settler.submit(releases(received[next:])...) }()
	for next < len(received) {
		if err := ctx.Err(); err != nil {
			return err
		}
		d := received[next]
		next++
		if d.begin(nil) && !yield(d.delivery.Lease, nil) {
			return errBreak
		}
	}
	return nil
}
