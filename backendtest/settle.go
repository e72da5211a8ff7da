package backendtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rheo-go/rheo"
)

func settleCases() []testCase {
	return []testCase{
		{name: "a batch with every outcome", run: batchWithEveryOutcome},
		{name: "results come in the order of the items", run: resultsInOrder},
		{name: "a stale item changes nothing, nor what is around it", run: staleItemInABatch},
		{name: "a lease twice in a batch is settled once", run: leaseTwiceInABatch},
		{name: "a batch over several partitions", needs: []need{needsPartitions}, run: batchOverPartitions},
		{name: "a batch of a thousand", run: batchOfAThousand},
		{name: "an empty batch settles nothing", run: emptySettle},
		{name: "a renewal with lost leases renews the rest", run: renewalWithLostLeases},
		{name: "reasons are kept, and cut at their limit", run: reasonsAreKept},
		{name: "concurrent batches do not disturb each other", needs: []need{needsPartitions}, run: concurrentBatches},
	}
}

func as(outcome rheo.Outcome, leases ...*rheo.Lease) []rheo.Settlement {
	settlements := make([]rheo.Settlement, len(leases))
	for i, l := range leases {
		settlements[i] = rheo.Settlement{Lease: l, Outcome: outcome, Reason: "a " + outcome.String()}
	}
	return settlements
}

func batchWithEveryOutcome(s *subject) {
	s.create(1, "g")
	s.fill(0, 8)
	l := s.take("g", 1, 2, 3, 4, 5, 6, 7, 8)
	delayed := rheo.Settlement{Lease: l[4], Outcome: rheo.OutcomeNack, Delay: time.Minute, Reason: "delayed"}
	batch := append(as(rheo.OutcomeAck, l[0], l[5]), as(rheo.OutcomeNack, l[1])...)
	batch = append(append(batch, as(rheo.OutcomeReject, l[2], l[7])...), as(rheo.OutcomeRelease, l[3])...)
	for _, err := range s.settle(append(batch, delayed)...) {
		s.noError(err)
	}
	for i, d := range s.dead("g", 3, 8) {
		equal(s, "reason", d.Reason, "a reject")
		equal(s, "sequence", d.Sequence, []int64{3, 8}[i])
	}
	again := s.due("g", 2, 4)
	equal(s, "reason of the nack", again[0].LastReason, "a nack")
	equal(s, "attempt of the nacked", again[0].Attempt, 2)
	equal(s, "attempt of the released", again[1].Attempt, 1)
	s.ack(append(again, l[6])...)
	s.clock.Advance(2 * time.Minute)
	equal(s, "reason of the delayed nack", s.due("g", 5)[0].LastReason, "delayed")
}

// A thousand items in random order, a third of them stale, each with a random
// outcome; every result must be that of its own item.
func resultsInOrder(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 3})
	n := s.scaled(300)
	s.fill(0, n)
	rng := s.random()
	leases := s.fetch("g", n)
	lost := make(map[int64]bool)
	var batch []rheo.Settlement
	for _, l := range leases {
		if rng.IntN(3) == 0 {
			lost[l.Sequence] = true
			s.ack(l)
		}
		outcome := outcomes()[rng.IntN(4)]
		batch = append(batch, rheo.Settlement{Lease: l, Outcome: outcome, Reason: fmt.Sprint("reason ", l.Sequence)})
	}
	rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	open, dead := make(map[int64]rheo.Outcome), make(map[int64]bool)
	for i, err := range s.settle(batch...) {
		sequence, outcome := batch[i].Lease.Sequence, batch[i].Outcome
		if lost[sequence] {
			s.fails(fmt.Sprint("item ", i), err, rheo.ErrStaleLease)
			continue
		}
		s.noError(err)
		switch outcome {
		case rheo.OutcomeReject:
			dead[sequence] = true
		case rheo.OutcomeNack, rheo.OutcomeRelease:
			open[sequence] = outcome
		}
	}
	s.checkSettled(open, dead)
}

func (s *subject) checkSettled(open map[int64]rheo.Outcome, dead map[int64]bool) {
	s.Helper()
	letters := s.deadLetters("g")
	equal(s, "dead letters", len(letters), len(dead))
	for _, d := range letters {
		equal(s, fmt.Sprint("dead letter of ", d.Sequence), dead[d.Sequence], true)
		equal(s, "its reason", d.Reason, fmt.Sprint("reason ", d.Sequence))
	}
	again := s.fetch("g", 2*len(open)+1)
	equal(s, "events delivered again", len(again), len(open))
	for _, l := range again {
		want, reason := 1, ""
		if open[l.Sequence] == rheo.OutcomeNack {
			want, reason = 2, fmt.Sprint("reason ", l.Sequence)
		}
		equal(s, fmt.Sprint("attempt of ", l.Sequence), l.Attempt, want)
		equal(s, fmt.Sprint("reason of ", l.Sequence), l.LastReason, reason)
	}
}

func staleItemInABatch(s *subject) {
	s.create(1, "g")
	s.fill(0, 5)
	old := s.take("g", 1, 2, 3, 4, 5)
	s.ack(old[1])
	s.expire()
	fresh := s.due("g", 1, 3, 4, 5)
	forged := *fresh[3]
	forged.Receipt = "wrong"
	results := s.settle(
		rheo.Settlement{Lease: old[2], Outcome: rheo.OutcomeReject},
		rheo.Settlement{Lease: fresh[0], Outcome: rheo.OutcomeAck},
		rheo.Settlement{Lease: old[1], Outcome: rheo.OutcomeNack},
		rheo.Settlement{Lease: &forged, Outcome: rheo.OutcomeAck},
		rheo.Settlement{Lease: fresh[2], Outcome: rheo.OutcomeAck},
	)
	s.fails("the superseded lease", results[0], rheo.ErrStaleLease)
	s.noError(results[1])
	s.fails("the settled lease", results[2], rheo.ErrStaleLease)
	s.fails("the forged lease", results[3], rheo.ErrReceiptMismatch)
	s.noError(results[4])
	s.dead("g")
	s.due("g")
	info := s.info("g")
	equal(s, "in flight", info.InFlight(), 2)
	equal(s, "frontier", s.frontier("g"), 2)
	s.ack(fresh[1], fresh[3])
	equal(s, "lag", s.lag("g"), 0)
}

func leaseTwiceInABatch(s *subject) {
	s.create(1, "g")
	s.fill(0, 3)
	l := s.take("g", 1, 2, 3)
	batch := []rheo.Settlement{
		{Lease: l[0], Outcome: rheo.OutcomeAck},
		{Lease: l[1], Outcome: rheo.OutcomeAck},
		{Lease: l[0], Outcome: rheo.OutcomeAck},
		{Lease: l[2], Outcome: rheo.OutcomeAck},
		{Lease: l[1], Outcome: rheo.OutcomeReject},
	}
	results := s.settle(batch...)
	for _, i := range []int{0, 1, 3} {
		s.noError(results[i])
	}
	s.fails("the same again", results[2], rheo.ErrStaleLease)
	s.fails("another outcome later", results[4], rheo.ErrStaleLease)
	s.dead("g")
	equal(s, "lag", s.lag("g"), 0)
	s.due("g")
}

func batchOverPartitions(s *subject) {
	s.create(4)
	s.group("g", rheo.GroupConfig{MaxAttempts: 2})
	for p := range 4 {
		s.fill(p, 5)
	}
	leases := s.fetch("g", 20)
	equal(s, "leases", len(leases), 20)
	rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	var batch []rheo.Settlement
	for _, l := range leases {
		outcome := rheo.OutcomeAck
		if l.Sequence == 3 {
			outcome = rheo.OutcomeReject
		}
		if l.Sequence == 5 {
			outcome = rheo.OutcomeRelease
		}
		batch = append(batch, as(outcome, l)...)
	}
	for _, err := range s.settle(batch...) {
		s.noError(err)
	}
	for _, p := range s.info("g").Partitions {
		equal(s, "frontier", p.Frontier, 4)
		equal(s, "lag", p.Lag, 1)
	}
	equal(s, "dead letters", len(s.deadLetters("g")), 4)
	equalList(s, "events left", sorted(s.drain("g")), []string{"0-5", "1-5", "2-5", "3-5"})
}

func batchOfAThousand(s *subject) {
	s.create(1, "g")
	s.fill(0, 1000)
	leases := s.fetch("g", 1000)
	equal(s, "leases", len(leases), 1000)
	for _, r := range s.renew(lease, leases...) {
		s.noError(r.Err)
	}
	for _, err := range s.settle(as(rheo.OutcomeAck, leases...)...) {
		s.noError(err)
	}
	equal(s, "lag", s.lag("g"), 0)
	for _, err := range s.settle(as(rheo.OutcomeAck, leases...)...) {
		s.fails("an ack again", err, rheo.ErrStaleLease)
	}
}

func emptySettle(s *subject) {
	s.create(1, "g")
	results, err := s.in.Settle(s.Context())
	s.noError(err)
	equal(s, "results", len(results), 0)
	s.ack()
	equal(s, "results", len(s.renew(lease)), 0)
}

func renewalWithLostLeases(s *subject) {
	s.create(1, "g")
	s.fill(0, 4)
	l := s.take("g", 1, 2, 3, 4)
	s.ack(l[1])
	forged := *l[3]
	forged.Receipt = "wrong"
	results := s.renew(time.Hour, l[0], l[1], &forged, l[2])
	s.noError(results[0].Err)
	s.fails("the settled lease", results[1].Err, rheo.ErrStaleLease)
	s.fails("the forged lease", results[2].Err, rheo.ErrReceiptMismatch)
	s.noError(results[3].Err)
	s.expire()
	s.due("g", 4)
	s.ack(l[0], l[2])
}

func reasonsAreKept(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 100})
	long := strings.Repeat("é", rheo.MaxReasonBytes)
	reasons := append([]string{"", strings.Repeat("x", rheo.MaxReasonBytes), long, "a\x00b", "bad \xff UTF-8", "a\nb\tc"}, hostile...)
	s.fill(0, len(reasons))
	check := func(got, given string) {
		s.Helper()
		if given == strings.ToValidUTF8(given, "") && len(given) <= rheo.MaxReasonBytes && !strings.Contains(given, "\x00") {
			equal(s, "reason", got, given)
			return
		}
		if got == "" || len(got) > rheo.MaxReasonBytes || !utf8.ValidString(got) || strings.Contains(got, "\x00") || got[0] != given[0] {
			s.Fatalf("the reason %.40q came back as %.40q, with %d bytes", given, got, len(got))
		}
	}
	for i, l := range s.fetch("g", len(reasons)) {
		s.nack(reasons[i], 0, l)
	}
	for i, l := range s.fetch("g", len(reasons)) {
		check(l.LastReason, reasons[i])
		s.reject(reasons[i], l)
	}
	for i, d := range s.deadLetters("g") {
		check(d.Reason, reasons[i])
	}
}

// Four callers settle their own leases, which lie among each other, in small
// batches at the same time.
func concurrentBatches(s *subject) {
	s.create(2, "g")
	n := s.scaled(200)
	s.fill(0, n)
	s.fill(1, n)
	leases := s.fetch("g", 2*n)
	equal(s, "leases", len(leases), 2*n)
	const callers = 4
	s.together(callers, func(who int) error {
		for at := who; at < len(leases); at += 3 * callers {
			var batch []rheo.Settlement
			for i := at; i < min(at+3*callers, len(leases)); i += callers {
				batch = append(batch, as([]rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeReject}[i%2], leases[i])...)
			}
			results, err := s.in.Settle(s.Context(), batch...)
			if err != nil {
				return err
			}
			for i, err := range results {
				if err != nil {
					return fmt.Errorf("item %d: %w", i, err)
				}
			}
		}
		return nil
	})
	equal(s, "lag", s.lag("g"), 0)
	equal(s, "dead letters", len(s.deadLetters("g")), n)
	s.due("g")
}
