package backendtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

// A span is when a call was under way: by a counter that every call moves, so
// that one which ended before another began is known to come first, and by the
// clock. The store's own moment lies somewhere between.
type span struct {
	from, to     int64
	began, ended time.Time
}

func (a span) String() string {
	return fmt.Sprintf("between %d and %d, %s and %s", a.from, a.to, a.began.UTC().Format(time.TimeOnly), a.ended.UTC().Format(time.TimeOnly))
}

func (a span) before(b span) bool { return a.to < b.from }

// A handed is one lease, with all that its holder did with it. A holder makes
// one call at a time.
type handed struct {
	*rheo.Lease
	fetch    span
	renewals []renewal
	settles  []settling
}

type renewal struct {
	span
	expires time.Time
	err     error
}

type settling struct {
	span
	rheo.Settlement
	err error
}

// settled returns the settle that went through, or nil.
func (h *handed) settled() *settling {
	for i := range h.settles {
		if h.settles[i].err == nil {
			return &h.settles[i]
		}
	}
	return nil
}

// terminal returns the settle that ended the delivery for good, or nil.
func (h *handed) terminal(maxAttempts int) *settling {
	s := h.settled()
	if s == nil || s.Outcome == rheo.OutcomeRelease || s.Outcome == rheo.OutcomeNack && h.Attempt < maxAttempts {
		return nil
	}
	return s
}

// goodUntil is the time until which the lease kept others off during a call: the
// soonest, where a renewal was under way meanwhile.
func (h *handed) goodUntil(during span) time.Time {
	until := h.ExpiresAt
	for _, r := range h.renewals {
		switch {
		case r.err != nil:
		case r.before(during):
			until = r.expires
		case !during.before(r.span) && r.expires.Before(until):
			until = r.expires
		}
	}
	return until
}

// expiry is when the lease ran out in the end.
func (h *handed) expiry() time.Time {
	until := h.ExpiresAt
	for _, r := range h.renewals {
		if r.err == nil {
			until = r.expires
		}
	}
	return until
}

type replayed struct {
	span
	covers func(partition int, sequence int64) bool
}

type observed struct {
	span
	partitions []rheo.PartitionInfo
}

type appended struct {
	span
	results []rheo.AppendResult
}

// A story is the history of one group.
type story struct {
	name        string
	config      rheo.GroupConfig
	replays     bool // it is replayed now and then
	mu          sync.Mutex
	handed      []*handed
	fetches     []span
	replayCalls []replayed
	infos       []observed
}

// A history is all that happened to a stream.
type history struct {
	*subject
	partitions int
	tick       atomic.Int64
	mu         sync.Mutex
	appends    []appended
	ids        []string   // appended so far
	logs       [][]string // the IDs of each partition, in the end
	groups     []*story
}

// timed makes a call and returns when it was under way.
func (h *history) timed(call func() error) (span, error) {
	var s span
	s.from, s.began = h.tick.Add(1), h.clock.Now()
	err := call()
	s.ended, s.to = h.clock.Now(), h.tick.Add(1)
	return s, err
}

// A caller makes calls, through an instance of its own, and writes them down.
type caller struct {
	*history
	in *rheo.Instance
}

func (h caller) append(events []rheo.Event) error {
	var results []rheo.AppendResult
	s, err := h.timed(func() (err error) {
		results, err = h.in.Append(h.Context(), h.stream, events...)
		return err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.appends = append(h.appends, appended{s, results})
	for i := range results {
		h.ids = append(h.ids, results[i].ID)
	}
	return nil
}

func (h caller) fetch(g *story, o rheo.FetchOptions) ([]*handed, error) {
	var leases []*rheo.Lease
	s, err := h.timed(func() (err error) {
		leases, err = h.in.Fetch(h.Context(), h.stream, g.name, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	got := make([]*handed, len(leases))
	for i, l := range leases {
		got[i] = &handed{Lease: l, fetch: s}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fetches = append(g.fetches, s)
	g.handed = append(g.handed, got...)
	return got, nil
}

func (h caller) renew(d time.Duration, held []*handed) error {
	leases := make([]*rheo.Lease, len(held))
	for i := range held {
		leases[i] = held[i].Lease
	}
	var results []rheo.RenewResult
	s, err := h.timed(func() (err error) {
		results, err = h.in.Renew(h.Context(), d, leases...)
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		held[i].renewals = append(held[i].renewals, renewal{s, r.ExpiresAt, r.Err})
	}
	return nil
}

func (h caller) settle(held []*handed, settlements []rheo.Settlement) error {
	for i := range held {
		settlements[i].Lease = held[i].Lease
	}
	var results []error
	s, err := h.timed(func() (err error) {
		results, err = h.in.Settle(h.Context(), settlements...)
		return err
	})
	if err != nil {
		return err
	}
	for i, err := range results {
		held[i].settles = append(held[i].settles, settling{s, settlements[i], err})
	}
	return nil
}

func (h caller) replay(g *story, selection rheo.ReplaySelection, covers func(int, int64) bool) error {
	s, err := h.timed(func() error {
		_, err := h.in.Replay(h.Context(), h.stream, g.name, selection)
		return err
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.replayCalls = append(g.replayCalls, replayed{s, covers})
	return nil
}

func (h caller) observe(g *story) error {
	var info rheo.GroupInfo
	s, err := h.timed(func() (err error) {
		info, err = h.in.GroupInfo(h.Context(), h.stream, g.name)
		return err
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.infos = append(g.infos, observed{s, info.Partitions})
	return nil
}
