package ledger_test

import (
	"slices"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestRenewExtendsWhatIsHeld(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	l.Claim(claim(2, 0, 2))
	held(t, l, ack(1, 2), nack(0, "boom", 1, 3))
	got := l.Renew(slices.Concat(refs(2, 6), refs(1, 1, 2, 3, 4, 7), refs(9, 5, 0)), 30)
	same(t, got, []bool{true, true, false, false, true, false, false, false})
	want(t, l, "0/6 | 1-1 leased 1 @30 #1 w | 3-3 available 1 @0 (boom) | 4-4 leased 1 @30 #1 w"+
		" | 5-5 leased 1 @10 #2 w | 6-6 leased 1 @30 #2 w")
	same(t, l.Renew(nil, 40), []bool{})
}

func TestRenewInPartsMergesAgain(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 9))
	l.Renew(refs(1, 2, 3, 5), 30)
	same(t, l.Len(), 5)
	l.Renew(refs(1, 9, 8, 7, 6, 4, 1), 30)
	want(t, l, "0/9 | 1-9 leased 1 @30 #1 w")
}

func TestRenewTwiceInABatch(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2))
	same(t, l.Renew(slices.Concat(refs(1, 1, 1), refs(8, 1, 2), refs(1, 2, 1)), 30),
		[]bool{true, true, false, false, true, true})
	want(t, l, "0/2 | 1-2 leased 1 @30 #1 w")
}

func TestExpiredLeaseMayBeRenewedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2, high(2)))
	l.Claim(claim(2, 10, 1, high(2)))
	same(t, l.Renew(refs(1, 1, 2), 60), []bool{false, true})
	same(t, l.Claim(claim(3, 19, 2, high(2))), ledger.Claimed{})
	want(t, l, "0/2 | 1-1 leased 2 @20 #2 w | 2-2 leased 1 @60 #1 w")
}

func TestRenewMayShortenALease(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2, high(2)))
	l.Renew(refs(1, 2), 4)
	same(t, l.Claim(claim(2, 4, 2, high(2))).Spans, []ledger.Span{{From: 2, To: 2, Attempt: 2}})
}
