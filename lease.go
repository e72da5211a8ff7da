package rheo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Lease is the right to settle one delivery: an event, handed to one consumer of
// a group until ExpiresAt.
type Lease struct {
	Event
	// Group is the group the event was fetched for.
	Group string `json:"group"`
	// LeaseID is the fencing token: another one with every delivery. The store
	// refuses it once the delivery was settled or handed out again.
	LeaseID string `json:"lease_id"`
	// Receipt is the backend's own handle on the delivery. It is opaque.
	Receipt string `json:"receipt"`
	// Attempt counts the deliveries of this event to this group, from 1.
	Attempt int `json:"attempt"`
	// ExpiresAt is when the store may hand the event out again, by the store's
	// clock; a renewal moves it.
	ExpiresAt time.Time `json:"expires_at"`
	// LastReason is the last reason that a nack gave for an earlier attempt, if one
	// did.
	LastReason string `json:"last_reason,omitempty"`
}

// FetchOptions says what to lease. The zero value leases one event.
type FetchOptions struct {
	// Max is the most leases to return. Default 1, at most [MaxBatch].
	Max int
	// LeaseDuration is how long they last unless renewed. Default
	// [DefaultLeaseDuration].
	LeaseDuration time.Duration
	// Partitions limits the call to some of the group's. Empty means all.
	Partitions []int
	// ConsumerID is who holds the leases, for people to see. Default
	// [Options].ConsumerID.
	ConsumerID string
}

// Fetch leases up to Max events for the group, redeliveries before events never
// offered, lowest sequence first within a partition. It does not wait: no lease
// and no error means that nothing is due now. Successive calls start at
// different partitions, so that a busy one starves none.
func (i *Instance) Fetch(ctx context.Context, stream, group string, opts FetchOptions) ([]*Lease, error) {
	n, err := i.onStream(ctx, stream, group)
	if err != nil {
		return nil, err
	}
	opts.Max = cmp.Or(opts.Max, 1)
	opts.LeaseDuration = cmp.Or(opts.LeaseDuration, DefaultLeaseDuration)
	opts.ConsumerID = cmp.Or(opts.ConsumerID, i.consumerID)
	if err := checkRange("max", int64(opts.Max), 1, MaxBatch); err != nil {
		return nil, err
	}
	if err := checkLeaseDuration(opts.LeaseDuration); err != nil {
		return nil, err
	}
	if err := checkName("consumer id", opts.ConsumerID); err != nil {
		return nil, err
	}
	if err := checkPartitions(opts.Partitions, n); err != nil {
		return nil, err
	}
	return i.backend.Fetch(ctx, FetchRequest{
		Stream: stream, Group: group, Partitions: opts.Partitions,
		Max: opts.Max, LeaseDuration: opts.LeaseDuration, ConsumerID: opts.ConsumerID,
	})
}

// RenewResult is what became of one lease of a renewal.
type RenewResult struct {
	// ExpiresAt is the new expiry, if Err is nil.
	ExpiresAt time.Time
	// Err is [ErrStaleLease] or [ErrReceiptMismatch] if the lease is lost.
	Err error
}

// Renew makes the leases, all of one group, last for d from now, with a result
// for each in the order given. A lease that has expired but was not handed out
// again is renewed too.
func (i *Instance) Renew(ctx context.Context, d time.Duration, leases ...*Lease) ([]RenewResult, error) {
	if err := i.ready(ctx); err != nil || len(leases) == 0 {
		return nil, err
	}
	if err := checkLeaseDuration(d); err != nil {
		return nil, err
	}
	stream, group, err := sameGroup(len(leases), func(at int) *Lease { return leases[at] })
	if err != nil {
		return nil, err
	}
	return i.backend.Renew(ctx, RenewRequest{Stream: stream, Group: group, Leases: leases, Duration: d})
}

// Outcome is how a delivery is settled.
type Outcome int

const (
	// OutcomeAck ends the delivery: the event is done for this group.
	OutcomeAck Outcome = iota + 1
	// OutcomeNack makes it available again, at once or after a delay. A nack of
	// the last attempt rejects.
	OutcomeNack
	// OutcomeReject ends the delivery as a dead letter.
	OutcomeReject
	// OutcomeRelease gives it back without spending an attempt.
	OutcomeRelease
)

// reopens reports whether the delivery comes again.
func (o Outcome) reopens() bool { return o == OutcomeNack || o == OutcomeRelease }

// String returns ack, nack, reject or release.
func (o Outcome) String() string {
	switch o {
	case OutcomeAck:
		return "ack"
	case OutcomeNack:
		return "nack"
	case OutcomeReject:
		return "reject"
	case OutcomeRelease:
		return "release"
	}
	return "unknown"
}

// Settlement is the outcome of one delivery.
type Settlement struct {
	Lease   *Lease
	Outcome Outcome
	// Delay is how long a nacked event waits for its next attempt.
	Delay time.Duration
	// Reason is why, for a nack or reject: kept with the delivery, and shown by
	// the dead letters. Longer ones than [MaxReasonBytes] are cut.
	Reason string
}

// Settle ends deliveries of one group, with a result for each in the order
// given: nil, or [ErrStaleLease] or [ErrReceiptMismatch] if the lease was lost,
// in which case that item changed nothing. One item never affects another. The
// returned error is set if the call as a whole failed.
func (i *Instance) Settle(ctx context.Context, settlements ...Settlement) ([]error, error) {
	if err := i.ready(ctx); err != nil || len(settlements) == 0 {
		return nil, err
	}
	stream, group, settlements, err := checkSettlements(settlements)
	if err != nil {
		return nil, err
	}
	return i.backend.Settle(ctx, SettleRequest{Stream: stream, Group: group, Settlements: settlements})
}

// checkSettlements returns the settlements, and the one group that they are of,
// with their reasons fit to be stored; it copies them only if one was not.
func checkSettlements(given []Settlement) (stream, group string, checked []Settlement, err error) {
	stream, group, err = sameGroup(len(given), func(at int) *Lease { return given[at].Lease })
	if err != nil {
		return "", "", nil, err
	}
	checked = given
	for at, s := range given {
		if s.Outcome < OutcomeAck || s.Outcome > OutcomeRelease {
			return "", "", nil, invalidf("outcome", "is %d, must be ack, nack, reject or release", s.Outcome)
		}
		if s.Delay < 0 || s.Delay > MaxDelay {
			return "", "", nil, invalidf("delay", "is %v, must be 0 to %v", s.Delay, MaxDelay)
		}
		reason := storedReason(s.Reason)
		if reason == s.Reason {
			continue
		}
		if &checked[0] == &given[0] {
			checked = slices.Clone(given)
		}
		checked[at].Reason = reason
	}
	return stream, group, checked, nil
}

// Ack settles the leases as done. Like its siblings it returns nil if every
// lease was still held, else the failures joined; [Instance.Settle] tells which
// lease each belongs to.
func (i *Instance) Ack(ctx context.Context, leases ...*Lease) error {
	return settleAll(ctx, i.Settle, leases, Settlement{Outcome: OutcomeAck})
}

// Nack makes the leases' events available again after the delay, 0 for at once.
func (i *Instance) Nack(ctx context.Context, reason string, delay time.Duration, leases ...*Lease) error {
	return settleAll(ctx, i.Settle, leases, Settlement{Outcome: OutcomeNack, Reason: reason, Delay: delay})
}

// Reject turns the leases' events into dead letters.
func (i *Instance) Reject(ctx context.Context, reason string, leases ...*Lease) error {
	return settleAll(ctx, i.Settle, leases, Settlement{Outcome: OutcomeReject, Reason: reason})
}

// Release gives the leases back without spending an attempt.
func (i *Instance) Release(ctx context.Context, leases ...*Lease) error {
	return settleAll(ctx, i.Settle, leases, Settlement{Outcome: OutcomeRelease})
}

// settleAll settles all leases alike.
func settleAll(ctx context.Context, settle func(context.Context, ...Settlement) ([]error, error), leases []*Lease, like Settlement) error {
	settlements := make([]Settlement, len(leases))
	for at, lease := range leases {
		settlements[at] = like
		settlements[at].Lease = lease
	}
	results, err := settle(ctx, settlements...)
	return cmp.Or(err, errors.Join(results...))
}

// sameGroup checks that n leases are of one group, which it returns.
func sameGroup(n int, lease func(at int) *Lease) (stream, group string, err error) {
	if n > MaxBatch {
		return "", "", invalidf("batch", "has %d leases, the limit is %d", n, MaxBatch)
	}
	for at := range n {
		l := lease(at)
		switch {
		case l == nil:
			return "", "", invalidf("lease", "%d of %d is nil", at+1, n)
		case at == 0:
			stream, group = l.Stream, l.Group
		case l.Stream != stream || l.Group != group:
			return "", "", invalidf("leases", "must be of one group, these are of %s/%s and %s/%s", stream, group, l.Stream, l.Group)
		}
	}
	if err := checkName("stream", stream); err != nil {
		return "", "", err
	}
	return stream, group, checkName("group", group)
}
