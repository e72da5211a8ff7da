package ledger_test

import (
	"math"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestClaimHandsOutNewEventsUpToTheHighWatermark(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	same(t, l.Claim(claim(1, 0, 3)).Spans, []ledger.Span{{From: 1, To: 3, Attempt: 1}})
	same(t, l.Claim(claim(2, 0, 3, high(5))).Spans, []ledger.Span{{From: 4, To: 5, Attempt: 1}})
	same(t, l.Claim(claim(3, 0, 3, high(5))), ledger.Claimed{})
	same(t, l.Claim(claim(3, 0, 3, high(math.MinInt64))), ledger.Claimed{})
	same(t, l.Claim(claim(3, 0, 0)), ledger.Claimed{})
	same(t, l.Claim(claim(3, 0, -1)), ledger.Claimed{})
	want(t, l, "0/5 | 1-3 leased 1 @10 #1 w | 4-5 leased 1 @10 #2 w")
}

func TestClaimHandsOutRedeliveriesFirstLowestFirst(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 6))
	held(t, l, nack(0, "boom", 1, 5), ack(1, 4), release(1, 2), nack(50, "later", 1, 1))
	same(t, l.Claim(claim(2, 5, 3)).Spans, []ledger.Span{
		{From: 2, To: 2, Attempt: 1}, // released: not spent
		{From: 5, To: 5, Attempt: 2, Reason: "boom"},
		{From: 7, To: 7, Attempt: 1},
	})
	want(t, l, "0/7 | 1-1 available 1 @50 (later) | 2-2 leased 1 @15 #2 w | 3-3 leased 1 @10 #1 w"+
		" | 5-5 leased 2 @15 #2 w (boom) | 6-6 leased 1 @10 #1 w | 7-7 leased 1 @15 #2 w")
}

func TestClaimMergesSpansThatAreAlike(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2))
	l.Claim(claim(2, 1, 2))
	held(t, l, release(2, 4))
	// 1-2 and 3 expired in two runs, 4 is available: attempts 2, 2 and 1; 5 is new.
	same(t, l.Claim(claim(3, 20, 5)).Spans, []ledger.Span{
		{From: 1, To: 3, Attempt: 2},
		{From: 4, To: 5, Attempt: 1},
	})
	want(t, l, "0/5 | 1-3 leased 2 @30 #3 w | 4-5 leased 1 @30 #3 w")
}

func TestClaimTakesAnExpiredLeaseAndFencesItsHolder(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 3, high(3)))
	same(t, l.Claim(claim(2, 9, 3, high(3))), ledger.Claimed{})
	same(t, l.Claim(claim(3, 10, 2, high(3))).Spans, []ledger.Span{{From: 1, To: 2, Attempt: 2}})
	same(t, held(t, l, ack(1, 1, 2, 3)), []bool{false, false, true})
	want(t, l, "0/3 | 1-2 leased 2 @20 #3 w")
}

// TestAttemptsCountWhenLeasesJustExpire: three attempts mean no fourth
// delivery, whoever dies with them.
func TestAttemptsCountWhenLeasesJustExpire(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	for attempt := 1; attempt <= 3; attempt++ {
		got := l.Claim(claim(uint64(attempt), int64(10*attempt), 2, high(2)))
		same(t, got, ledger.Claimed{Spans: []ledger.Span{{From: 1, To: 2, Attempt: attempt}}})
	}
	same(t, l.Claim(claim(4, 39, 2, high(2))), ledger.Claimed{}) // may still be settled
	same(t, l.Claim(claim(5, 40, 2, high(2))), ledger.Claimed{
		Dead: []ledger.Dead{{From: 1, To: 2, Attempts: 3, Reason: ledger.ReasonLeaseExpired}},
	})
	want(t, l, "2/2")
}

func TestClaimRejectsWhatHasUsedUpItsAttempts(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	held(t, l, nack(0, "boom", 1, 2, 3))
	// The group's bound was lowered since: 1 and 4 expired, 2 and 3 failed.
	got := l.Claim(claim(2, 10, 2, maxAttempts(1)))
	same(t, got, ledger.Claimed{
		Spans: []ledger.Span{{From: 5, To: 6, Attempt: 1}},
		Dead: []ledger.Dead{
			{From: 1, To: 1, Attempts: 1, Reason: ledger.ReasonLeaseExpired},
			{From: 2, To: 3, Attempts: 1, Reason: "boom"},
			{From: 4, To: 4, Attempts: 1, Reason: ledger.ReasonLeaseExpired},
		},
	})
	want(t, l, "4/6 | 5-6 leased 1 @20 #2 w")
}

func TestClaimKeepsTheReasonOfTheAttemptBefore(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 1, high(1)))
	held(t, l, nack(0, "boom", 1, 1))
	l.Claim(claim(2, 0, 1, high(1)))
	l.Claim(claim(3, 10, 1, high(1)))
	want(t, l, "0/1 | 1-1 leased 3 @20 #3 w (boom)")
	same(t, l.Claim(claim(4, 20, 1, high(1))).Dead, []ledger.Dead{{From: 1, To: 1, Attempts: 3, Reason: "boom"}})
}

func TestClaimWithoutAttemptBoundNeverRejects(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	for i := range 50 {
		got := l.Claim(claim(uint64(i), int64(10*i), 1, high(1), maxAttempts(0)))
		same(t, got, ledger.Claimed{Spans: []ledger.Span{{From: 1, To: 1, Attempt: i + 1}}})
	}
	settled := l.Settle(nack(0, "boom", 49, 1), 0)
	same(t, settled, ledger.Settled{Held: []bool{true}})
}

func TestAttemptsStopCountingBeforeTheyOverflow(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	if err := l.Restore(1, "w", 0, []ledger.Span{{From: 1, To: 1, Attempt: math.MaxInt32}}); err != nil {
		t.Fatal(err)
	}
	got := l.Claim(claim(2, 0, 1, maxAttempts(0)))
	same(t, got.Spans, []ledger.Span{{From: 1, To: 1, Attempt: math.MaxInt32}})
}

func TestClaimRejectsABoundedNumberAtOnce(t *testing.T) {
	t.Parallel()
	const bound = ledger.MaxDeadPerClaim
	for name, ordering := range map[string]func(*ledger.Claim){"unordered": func(*ledger.Claim) {}, "ordered": ordered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(0)
			last := func(c *ledger.Claim) { c.High, c.MaxAttempts = 3000, 1 }
			l.Claim(claim(1, 0, 1200, last, ordering))
			held(t, l, release(1, 600)) // one that still has its attempt
			got := l.Claim(claim(2, 10, 5, last, ordering))
			dead := []ledger.Dead{
				{From: 1, To: 599, Attempts: 1, Reason: ledger.ReasonLeaseExpired},
				{From: 601, To: bound + 1, Attempts: 1, Reason: ledger.ReasonLeaseExpired},
			}
			same(t, got.Dead, dead)
			if name == "ordered" { // nothing may pass those that are left
				same(t, got.Spans, []ledger.Span{{From: 600, To: 600, Attempt: 1}})
				held(t, l, ack(2, 600))
			} else {
				same(t, got.Spans, []ledger.Span{{From: 600, To: 600, Attempt: 1}, {From: 1201, To: 1204, Attempt: 1}})
			}
			got = l.Claim(claim(3, 10, 1, last, ordering))
			same(t, got.Dead, []ledger.Dead{{From: bound + 2, To: 1200, Attempts: 1, Reason: ledger.ReasonLeaseExpired}})
			same(t, len(got.Spans), 1)
		})
	}
}

func TestClaimHoldsBackNewEventsAtTheRunBound(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 6))
	held(t, l, ack(1, 2, 4), release(1, 3)) // 1 | 3 | 5-6
	bound := maxRuns(3)
	same(t, l.Claim(claim(2, 0, 5, bound)).Spans, []ledger.Span{{From: 3, To: 3, Attempt: 1}})
	same(t, l.Claim(claim(3, 0, 5, bound)), ledger.Claimed{})
	held(t, l, ack(2, 3))
	same(t, l.Claim(claim(4, 0, 1, bound)).Spans, []ledger.Span{{From: 7, To: 7, Attempt: 1}})
	same(t, l.Claim(claim(5, 0, 1, bound)), ledger.Claimed{})
	same(t, l.Claim(claim(6, 0, 1, maxRuns(0))).Spans, []ledger.Span{{From: 8, To: 8, Attempt: 1}})
}

func TestClaimReachesTheLastSequenceThereIs(t *testing.T) {
	t.Parallel()
	const last = math.MaxInt64
	l := ledger.New(last - 2)
	got := l.Claim(claim(1, 0, 10, high(last)))
	same(t, got.Spans, []ledger.Span{{From: last - 1, To: last, Attempt: 1}})
	same(t, l.Claim(claim(2, 0, 10, high(last))), ledger.Claimed{})
	same(t, l.Renew(refs(1, last, last-1), 30), []bool{true, true})
	same(t, l.Claim(claim(3, 30, 10, high(last))).Spans, []ledger.Span{{From: last - 1, To: last, Attempt: 2}})
	same(t, l.Claim(claim(4, 50, 10, high(last), ordered)).Spans, []ledger.Span{{From: last - 1, To: last, Attempt: 3}})
	same(t, held(t, l, ack(4, last, last-1)), []bool{true, true})
	l.Reopen(last, last)
	if err := l.Restore(5, "w", 70, []ledger.Span{{From: 1, To: last, Attempt: 1}}); err != nil {
		t.Fatal(err)
	}
	same(t, l.Count(0), ledger.Counts{InFlight: last})
}

func TestOrderedClaimHasOneBatchInFlight(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	same(t, l.Claim(claim(1, 0, 3, ordered)).Spans, []ledger.Span{{From: 1, To: 3, Attempt: 1}})
	held(t, l, ack(1, 1, 2))
	same(t, l.Claim(claim(2, 9, 3, ordered)), ledger.Claimed{})
	held(t, l, ack(1, 3))
	same(t, l.Claim(claim(3, 9, 3, ordered)).Spans, []ledger.Span{{From: 4, To: 6, Attempt: 1}})
	// It expires: the same again, and what follows in the same batch.
	same(t, l.Claim(claim(4, 19, 5, ordered)).Spans, []ledger.Span{{From: 4, To: 6, Attempt: 2}, {From: 7, To: 8, Attempt: 1}})
}

func TestOrderedClaimIsHeldByAFailingEvent(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4, ordered))
	held(t, l, ack(1, 1), nack(50, "boom", 1, 2), release(1, 3, 4))
	want(t, l, "1/4 | 2-2 available 1 @50 (boom) | 3-4 available 0 @0")
	same(t, l.Claim(claim(2, 49, 9, ordered)), ledger.Claimed{})
	same(t, l.Claim(claim(3, 50, 2, ordered)).Spans, []ledger.Span{
		{From: 2, To: 2, Attempt: 2, Reason: "boom"},
		{From: 3, To: 3, Attempt: 1},
	})
	// While 4 waits behind, new events do too; then they come in one batch.
	held(t, l, ack(3, 2, 3))
	same(t, l.Claim(claim(4, 50, 2, ordered)).Spans, []ledger.Span{{From: 4, To: 5, Attempt: 1}})
}

func TestOrderedClaimStopsAtTheFirstThatIsNotDue(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 5, ordered))
	held(t, l, release(1, 1, 2, 4), nack(50, "boom", 1, 3), ack(1, 5))
	same(t, l.Claim(claim(2, 0, 9, ordered)).Spans, []ledger.Span{{From: 1, To: 2, Attempt: 1}})
	want(t, l, "0/5 | 1-2 leased 1 @10 #2 w | 3-3 available 1 @50 (boom) | 4-4 available 0 @0")
}

func TestOrderedClaimRejectsOnItsWay(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2, ordered, maxAttempts(1)))
	same(t, l.Claim(claim(2, 9, 2, ordered, maxAttempts(1))), ledger.Claimed{})
	got := l.Claim(claim(3, 10, 2, ordered, maxAttempts(1)))
	same(t, got, ledger.Claimed{
		Spans: []ledger.Span{{From: 3, To: 4, Attempt: 1}},
		Dead:  []ledger.Dead{{From: 1, To: 2, Attempts: 1, Reason: ledger.ReasonLeaseExpired}},
	})
}

func TestSpanLen(t *testing.T) {
	t.Parallel()
	same(t, ledger.Span{From: 3, To: 3}.Len(), 1)
	same(t, ledger.Span{From: 3, To: 102}.Len(), 100)
}
