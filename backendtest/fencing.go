package backendtest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func fencingCases() []testCase {
	return []testCase{
		{name: "a lease taken again is refused whatever its holder does", run: takenAgainIsRefused},
		{name: "a settled lease is refused whatever comes next", run: settledIsRefused},
		{name: "a released lease is refused", run: releasedIsRefused},
		{name: "a wrong receipt is refused", run: wrongReceipt},
		{name: "a made-up lease is refused", run: madeUpLease},
		{name: "a lease is good for its own event and group alone", run: leaseIsGoodForItsOwn},
		{name: "a lease of every earlier attempt is refused", run: everyEarlierAttempt},
		{name: "a batch is settled but for the leases that are lost", run: batchLosesSome},
		{name: "a batch is settled but for what was replayed", needs: []need{needsReplay}, run: batchLosesByReplay},
		{name: "of concurrent settles of one lease one goes through", run: oneSettleGoesThrough},
		{name: "a late ack and a fetch never both win", run: lateAckOrFetch},
		{name: "a late renewal and a fetch never both win", run: lateRenewalOrFetch},
	}
}

// An attempt is something that the holder of a lease may try, with what came of
// it.
type attempt struct {
	name string
	try  func(*subject, *rheo.Lease) error
}

func attempts() []attempt {
	var all []attempt
	for _, outcome := range outcomes() {
		all = append(all, attempt{outcome.String(), func(s *subject, l *rheo.Lease) error {
			s.Helper()
			return s.settle(rheo.Settlement{Lease: l, Outcome: outcome, Reason: "refused", Delay: time.Hour})[0]
		}})
	}
	return append(all, attempt{"renew", func(s *subject, l *rheo.Lease) error {
		s.Helper()
		return s.renew(24*time.Hour, l)[0].Err
	}})
}

// refused tries everything with a lease that is not good, and checks that nothing
// changes by it.
func (s *subject) refused(what string, l *rheo.Lease, sentinel error) {
	s.Helper()
	s.refusedAs(what, l, func(error) error { return sentinel })
}

// refusedAs is refused where more than one sentinel may be right.
func (s *subject) refusedAs(what string, l *rheo.Lease, sentinel func(got error) error) {
	s.Helper()
	before := fmt.Sprintf("%+v", s.info(l.Group))
	for _, a := range attempts() {
		err := a.try(s, l)
		s.fails(a.name+" of "+what, err, sentinel(err))
		equal(s, "the group after "+a.name+" of "+what, fmt.Sprintf("%+v", s.info(l.Group)), before)
	}
}

func takenAgainIsRefused(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 1)
	old := s.take("g", 1)[0]
	s.expire()
	taken := s.take("g", 1)[0]
	s.refused("a lease taken again", old, rheo.ErrStaleLease)
	s.due("g")
	s.dead("g")
	s.clock.Advance(lease - time.Second) // the renewal refused did not extend the new lease, nor end it
	s.due("g")
	s.ack(taken)
	s.refused("a lease taken again and acked", old, rheo.ErrStaleLease)
	s.clock.Advance(48 * time.Hour)
	s.due("g")
	s.dead("g")
	equal(s, "lag", s.lag("g"), 0)
}

func settledIsRefused(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 100})
	s.fill(0, 8)
	leases := s.take("g", 1, 2, 3, 4, 5, 6, 7, 8)
	for i, outcome := range outcomes() {
		for round, l := range leases[2*i : 2*i+2] {
			s.noError(s.settle(rheo.Settlement{Lease: l, Outcome: outcome, Delay: time.Duration(round) * time.Hour, Reason: "once"})[0])
			s.refused("a lease settled by "+outcome.String(), l, rheo.ErrStaleLease)
		}
	}
	s.dead("g", 5, 6)
	again := s.due("g", 3, 7, 8)
	for i, l := range again {
		equal(s, "attempt", l.Attempt, []int{2, 1, 1}[i])
		s.ack(l)
	}
	for _, l := range leases {
		s.refused("a lease settled long ago", l, rheo.ErrStaleLease)
	}
	s.clock.Advance(2 * time.Hour)
	s.due("g", 4)
}

func releasedIsRefused(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	old := s.take("g", 1)[0]
	s.release(old)
	taken := s.take("g", 1)[0]
	equal(s, "attempt", taken.Attempt, 1) // the same as that of the lease given back
	s.refused("a lease released and taken again", old, rheo.ErrStaleLease)
	s.ack(taken)
	equal(s, "lag", s.lag("g"), 0)
}

func wrongReceipt(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	leases := s.take("g", 1, 2)
	for _, receipt := range []string{"", "wrong", leases[0].Receipt + "0", leases[1].Receipt} {
		forged := *leases[0]
		forged.Receipt = receipt
		if receipt == leases[0].Receipt { // it belongs to the fetch, say
			continue
		}
		s.refused(fmt.Sprintf("a lease with the receipt %q", receipt), &forged, rheo.ErrReceiptMismatch)
	}
	s.due("g")
	s.ack(leases...)
	equal(s, "lag", s.lag("g"), 0)
}

func madeUpLease(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	l := s.take("g", 1)[0]
	other := "0"
	if l.LeaseID[0] == '0' {
		other = "1"
	}
	for _, id := range []string{"", "made up", other + l.LeaseID[1:], "'; --", "🚀"} {
		forged := *l
		forged.LeaseID = id
		s.refused(fmt.Sprintf("a lease with the ID %q", id), &forged, rheo.ErrStaleLease)
	}
	for _, id := range []string{l.LeaseID + "0", l.LeaseID[:len(l.LeaseID)-1], l.LeaseID + " "} {
		forged := *l
		forged.LeaseID = id
		s.refusedAs(fmt.Sprintf("a lease with the ID %q", id), &forged, func(err error) error {
			if errors.Is(err, rheo.ErrReceiptMismatch) { // such an ID may be one, of another receipt
				return rheo.ErrReceiptMismatch
			}
			return rheo.ErrStaleLease
		})
	}
	s.refused("a lease that no fetch returned", madeUp(s.stream, "g"), rheo.ErrStaleLease)
	s.ack(l)
	s.due("g", 2)
}

func leaseIsGoodForItsOwn(s *subject) {
	s.create(1, "g", "other")
	s.fill(0, 2)
	first, second := s.take("g", 1)[0], s.take("g", 2)[0]
	theirs := s.take("other", 1)[0]
	forged := *first
	forged.Group = "other"
	s.refused("a lease of another group", &forged, rheo.ErrStaleLease)
	s.noError(s.in.CreateStream(s.Context(), "elsewhere", rheo.StreamConfig{}))
	s.noError(s.in.CreateGroup(s.Context(), "elsewhere", "g", rheo.GroupConfig{}))
	forged = *first
	forged.Stream = "elsewhere"
	for _, a := range attempts() {
		s.fails(a.name+" of a lease of another stream", a.try(s, &forged), rheo.ErrStaleLease)
	}
	s.ack(second)
	s.ack(theirs)
	equal(s, "lag", s.lag("g"), 2)
	s.ack(first)
	equal(s, "lag", s.lag("g"), 0)
}

func everyEarlierAttempt(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 10})
	s.fill(0, 1)
	var old []*rheo.Lease
	for i := range 6 {
		l := s.take("g", 1)[0]
		for _, earlier := range old {
			s.refused(fmt.Sprint("attempt ", earlier.Attempt), earlier, rheo.ErrStaleLease)
		}
		old = append(old, l)
		if i%2 == 0 {
			s.expire()
		} else {
			s.nack("again", 0, l)
		}
	}
	equal(s, "attempt", s.take("g", 1)[0].Attempt, 7)
}

func oneSettleGoesThrough(s *subject) {
	s.create(1, "g")
	n := s.scaled(20)
	s.fill(0, n)
	for _, l := range s.fetch("g", n) {
		var won atomic.Int32
		s.together(6, func(who int) error {
			outcome := []rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeReject}[who%2]
			results, err := s.in.Settle(s.Context(), rheo.Settlement{Lease: l, Outcome: outcome, Reason: "raced"})
			switch {
			case err != nil:
				return err
			case results[0] == nil:
				won.Add(1)
			case !errors.Is(results[0], rheo.ErrStaleLease):
				return results[0]
			}
			return nil
		})
		equal(s, "settles that went through", won.Load(), 1)
	}
	equal(s, "lag", s.lag("g"), 0)
	s.due("g")
}

// An expired lease is acked while another consumer fetches: either the ack goes
// through and the event is not handed out, or it is handed out and the ack is
// refused.
func lateAckOrFetch(s *subject) {
	s.lateOrFetch(func(l *rheo.Lease) error {
		results, err := s.in.Settle(s.Context(), rheo.Settlement{Lease: l, Outcome: rheo.OutcomeAck})
		return errors.Join(append(results, err)...)
	})
}

func lateRenewalOrFetch(s *subject) {
	s.lateOrFetch(func(l *rheo.Lease) error {
		results, err := s.in.Renew(s.Context(), lease, l)
		if err != nil {
			return err
		}
		return results[0].Err
	})
}

func (s *subject) lateOrFetch(late func(*rheo.Lease) error) {
	s.Helper()
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1000})
	s.fill(0, 1)
	for round := range s.scaled(60) {
		held := s.fetch("g", 1)
		equal(s, "leases", len(held), 1)
		s.expire()
		var taken []*rheo.Lease
		var lost error
		s.together(2, func(who int) error {
			var err error
			if who == round%2 {
				taken, err = s.in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{})
				return err
			}
			lost = late(held[0])
			return nil
		})
		if lost != nil {
			s.fails("the late holder", lost, rheo.ErrStaleLease)
		}
		if (len(taken) == 1) != (lost != nil) {
			s.Fatalf("the fetch got %d leases, and the late holder %v", len(taken), lost)
		}
		if lost == nil { // acked, or held for another while: go on with a fresh event
			_ = s.in.Ack(s.Context(), held[0])
			s.fill(0, 1)
		}
		s.ack(taken...)
		if len(taken) == 1 {
			s.fill(0, 1)
		}
	}
	equal(s, "lag but for the last event", s.lag("g"), 1)
}
