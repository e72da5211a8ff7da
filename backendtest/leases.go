package backendtest

import (
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func leaseCases() []testCase {
	return []testCase{
		{name: "a lease carries the event and its own data", run: leaseCarriesTheEvent},
		{name: "lease IDs are unique", run: leaseIDsAreUnique},
		{name: "an expired lease is delivered again", run: expiredLeaseComesBack},
		{name: "each fetch has its own duration", run: durationOfEachFetch},
		{name: "renewal extends, again and again", run: renewalExtends},
		{name: "renewal counts from now, even if that is sooner", run: renewalCountsFromNow},
		{name: "an expired lease not taken again may be settled", run: expiredMayBeSettled},
		{name: "an expired lease not taken again may be renewed", run: expiredMayBeRenewed},
		{name: "a nack makes available at once and keeps its reason", run: nackMakesAvailable},
		{name: "a nack's delay is kept", run: nackDelayIsKept},
		{name: "a release spends no attempt", run: releaseSpendsNoAttempt},
		{name: "a release keeps the reason of the attempt before", run: releaseKeepsTheReason},
		{name: "a reject is final", run: rejectIsFinal},
		{name: "a nack of the last attempt rejects", run: nackOfTheLastAttempt},
		{name: "a release of the last attempt does not reject", run: releaseOfTheLastAttempt},
		{name: "attempts count by expiry alone", run: attemptsCountByExpiry},
		{name: "attempts count however they end", run: attemptsCountHoweverTheyEnd},
		{name: "one attempt", run: oneAttempt},
		{name: "poison by expiry does not hold up its neighbours", run: poisonByExpiry},
		{name: "the last attempt may be acked late", run: lastAttemptAckedLate},
	}
}

const lease = rheo.DefaultLeaseDuration

// expire lets the leases of fetch run out.
func (s *subject) expire() { s.clock.Advance(lease + time.Second) }

func leaseCarriesTheEvent(s *subject) {
	s.create(1, "g")
	e := event("e1")
	e.Key, e.Type, e.Metadata = "key", "type", map[string]string{"k": "v"}
	e.Timestamp = time.Date(2020, 2, 29, 1, 2, 3, 4000, time.UTC)
	s.append(e)
	l := s.take("g", 1)[0]
	equal(s, "ID", l.ID, "e1")
	equal(s, "stream", l.Stream, s.stream)
	equal(s, "group", l.Group, "g")
	equal(s, "key", l.Key, "key")
	equal(s, "type", l.Type, "type")
	equal(s, "metadata", l.Metadata["k"], "v")
	equal(s, "timestamp", l.Timestamp, e.Timestamp)
	equal(s, "attempt", l.Attempt, 1)
	equal(s, "last reason", l.LastReason, "")
	s.sameJSON(l.Payload, `{"id":"e1"}`)
	s.near("expiry", l.ExpiresAt, s.clock.Now().Add(lease))
	equal(s, "zone of the expiry", l.ExpiresAt.Location(), time.UTC)
	if l.LeaseID == "" || l.Receipt == "" {
		s.Fatalf("the lease has the ID %q and the receipt %q", l.LeaseID, l.Receipt)
	}
}

func leaseIDsAreUnique(s *subject) {
	s.create(1, "g", "other")
	s.fill(0, 20)
	var ids []string
	for range 3 {
		for _, g := range []string{"g", "other"} {
			for _, l := range s.fetch(g, 20) {
				ids = append(ids, l.LeaseID)
			}
		}
		s.expire()
	}
	equal(s, "leases", len(ids), 120)
	s.eachOnce("lease IDs", ids, nil)
}

func expiredLeaseComesBack(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	first := s.take("g", 1, 2)
	s.clock.Advance(lease - time.Second)
	s.due("g", 3)
	s.clock.Advance(2 * time.Second)
	second := s.due("g", 1, 2)
	for i, l := range second {
		equal(s, "attempt", l.Attempt, 2)
		equal(s, "ID", l.ID, first[i].ID)
		equal(s, "last reason", l.LastReason, "")
		s.near("expiry", l.ExpiresAt, s.clock.Now().Add(lease))
	}
	s.clock.Advance(lease - time.Second)
	equal(s, "attempt of the third", s.due("g", 3)[0].Attempt, 2)
}

func durationOfEachFetch(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	for i, d := range []time.Duration{rheo.MinLeaseDuration, time.Minute, rheo.MaxLeaseDuration} {
		l := s.fetchWith("g", rheo.FetchOptions{LeaseDuration: d})
		equalList(s, "sequence", sequencesOf(l), []int64{int64(i + 1)})
		s.near("expiry", l[0].ExpiresAt, s.clock.Now().Add(d))
	}
	s.clock.Advance(time.Second)
	s.ack(s.due("g", 1)...)
	s.clock.Advance(time.Minute)
	s.ack(s.due("g", 2)...)
	s.clock.Advance(rheo.MaxLeaseDuration - 2*time.Minute)
	s.due("g")
	s.clock.Advance(2 * time.Minute)
	s.due("g", 3)
}

func renewalExtends(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	leases := s.take("g", 1, 2)
	for range 5 {
		s.clock.Advance(lease - time.Second)
		old := leases[0].ExpiresAt
		for _, r := range s.renew(lease, leases...) {
			s.noError(r.Err)
			s.near("new expiry", r.ExpiresAt, s.clock.Now().Add(lease))
		}
		equal(s, "expiry in the caller's lease", leases[0].ExpiresAt, old)
		s.due("g")
	}
	s.renew(lease, leases[0])
	s.clock.Advance(lease - time.Second)
	s.renew(lease, leases[0])
	s.clock.Advance(2 * time.Second)
	equal(s, "attempt", s.due("g", 2)[0].Attempt, 2)
	s.ack(leases[0])
}

func renewalCountsFromNow(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	l := s.fetchFor("g", 1, time.Hour)
	s.near("new expiry", s.renew(time.Minute, l...)[0].ExpiresAt, s.clock.Now().Add(time.Minute))
	s.clock.Advance(time.Minute - time.Second)
	s.due("g")
	s.clock.Advance(2 * time.Second)
	s.due("g", 1)
}

func outcomes() []rheo.Outcome {
	return []rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeNack, rheo.OutcomeReject, rheo.OutcomeRelease}
}

func expiredMayBeSettled(s *subject) {
	s.create(1, "g")
	s.fill(0, 4)
	leases := s.take("g", 1, 2, 3, 4)
	s.clock.Advance(24 * time.Hour)
	for i, outcome := range outcomes() {
		s.noError(s.settle(rheo.Settlement{Lease: leases[i], Outcome: outcome, Reason: "late"})[0])
	}
	s.dead("g", 3)
	again := s.due("g", 2, 4)
	equal(s, "attempt after the nack", again[0].Attempt, 2)
	equal(s, "attempt after the release", again[1].Attempt, 1)
}

func expiredMayBeRenewed(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	l := s.take("g", 1)
	s.expire()
	s.noError(s.renew(lease, l...)[0].Err)
	s.due("g")
	s.clock.Advance(lease - time.Second)
	s.due("g")
	s.ack(l...)
	s.expire()
	s.due("g")
}

func nackMakesAvailable(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	for attempt, reason := range []string{"first reason", "", "third: 'quoted' 🚀\nnew line"} {
		l := s.take("g", 1)[0]
		equal(s, "attempt", l.Attempt, attempt+1)
		s.nack(reason, 0, l)
		again := s.take("g", 1)[0]
		equal(s, "attempt", again.Attempt, attempt+2)
		equal(s, "last reason", again.LastReason, reason)
		if again.LeaseID == l.LeaseID {
			s.Fatalf("two deliveries have the lease ID %q", l.LeaseID)
		}
		s.release(again)
	}
}

func nackDelayIsKept(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	leases := s.take("g", 1, 2, 3)
	s.nack("a minute", time.Minute, leases[0])
	s.nack("the longest", rheo.MaxDelay, leases[1])
	s.nack("none", 0, leases[2])
	s.ack(s.due("g", 3)...)
	s.clock.Advance(time.Minute - time.Second)
	s.due("g")
	s.clock.Advance(2 * time.Second)
	l := s.due("g", 1)[0]
	equal(s, "attempt", l.Attempt, 2)
	equal(s, "last reason", l.LastReason, "a minute")
	s.ack(l)
	s.clock.Advance(rheo.MaxDelay - 2*time.Minute)
	s.due("g")
	s.clock.Advance(2 * time.Minute)
	s.due("g", 2)
}

func releaseSpendsNoAttempt(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 1)
	for range 5 {
		l := s.take("g", 1)[0]
		equal(s, "attempt", l.Attempt, 1)
		s.release(l)
	}
	s.nack("no", 0, s.take("g", 1)...)
	for range 3 {
		l := s.take("g", 1)[0]
		equal(s, "attempt", l.Attempt, 2)
		s.release(l)
	}
	s.dead("g")
}

func releaseKeepsTheReason(s *subject) {
	s.create(1, "g")
	s.fill(0, 1)
	s.nack("the reason", 0, s.take("g", 1)...)
	s.release(s.take("g", 1)...)
	equal(s, "last reason", s.take("g", 1)[0].LastReason, "the reason")
}

func rejectIsFinal(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	s.reject("the reason", s.take("g", 1)...)
	d := s.dead("g", 1)[0]
	equal(s, "attempts", d.Attempts, 1)
	equal(s, "reason", d.Reason, "the reason")
	s.ack(s.due("g", 2)...)
	s.clock.Advance(24 * time.Hour)
	s.due("g")
	equal(s, "lag", s.lag("g"), 0)
}

func nackOfTheLastAttempt(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 3})
	s.fill(0, 1)
	for attempt := 1; attempt <= 3; attempt++ {
		s.dead("g")
		s.nack(fmt.Sprint("reason ", attempt), 0, s.take("g", 1)...)
	}
	d := s.dead("g", 1)[0]
	equal(s, "attempts", d.Attempts, 3)
	equal(s, "reason", d.Reason, "reason 3")
	s.clock.Advance(24 * time.Hour)
	s.due("g")
	equal(s, "lag", s.lag("g"), 0)
}

func releaseOfTheLastAttempt(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 1)
	s.release(s.take("g", 1)...)
	s.dead("g")
	s.ack(s.take("g", 1)...)
	s.dead("g")
}

func attemptsCountByExpiry(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 3})
	s.fill(0, 1)
	for attempt := 1; attempt <= 3; attempt++ {
		equal(s, "attempt", s.due("g", 1)[0].Attempt, attempt)
		s.dead("g")
		s.expire()
	}
	for range 4 {
		s.due("g")
		s.expire()
	}
	d := s.dead("g", 1)[0]
	equal(s, "attempts", d.Attempts, 3)
	if d.Reason == "" {
		s.Fatal("the dead letter has no reason")
	}
	equal(s, "lag", s.lag("g"), 0)
}

func attemptsCountHoweverTheyEnd(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 5})
	s.fill(0, 1)
	s.take("g", 1)
	s.expire()
	s.nack("second", time.Second, s.take("g", 1)...)
	s.clock.Advance(2 * time.Second)
	s.release(s.take("g", 1)...)
	l := s.take("g", 1)[0]
	equal(s, "attempt", l.Attempt, 3)
	s.renew(time.Hour, l)
	s.clock.Advance(2 * time.Hour)
	equal(s, "attempt", s.take("g", 1)[0].Attempt, 4)
	s.expire()
	s.nack("fifth", 0, s.take("g", 1)...)
	d := s.dead("g", 1)[0]
	equal(s, "attempts", d.Attempts, 5)
	equal(s, "reason", d.Reason, "fifth")
}

func oneAttempt(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 2)
	s.nack("no second chance", time.Hour, s.take("g", 1)...)
	s.dead("g", 1)
	s.take("g", 2)
	s.expire()
	s.due("g")
	for _, d := range s.dead("g", 1, 2) {
		equal(s, "attempts", d.Attempts, 1)
	}
}

// Ten poison events whose consumers die lie before ten good ones.
func poisonByExpiry(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	s.fill(0, 20)
	acked := 0
	for range 4 {
		for _, l := range s.fetch("g", 100) {
			if l.Sequence > 10 {
				s.ack(l)
				acked++
			}
		}
		s.expire()
	}
	equal(s, "good events acked", acked, 10)
	s.dead("g", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	equal(s, "lag", s.lag("g"), 0)
}

func lastAttemptAckedLate(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 1})
	s.fill(0, 2)
	leases := s.take("g", 1, 2)
	s.expire()
	s.ack(leases[0])
	s.due("g") // rejects the second
	s.fails("an ack after that", s.in.Ack(s.Context(), leases[1]), rheo.ErrStaleLease)
	s.dead("g", 2)
	equal(s, "lag", s.lag("g"), 0)
}
