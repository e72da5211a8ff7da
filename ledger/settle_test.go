package ledger_test

import (
	"slices"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestSettleOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		batch []ledger.Settlement
		state string
		dead  []ledger.Dead
	}{
		"ack":     {ack(2, 2), "0/3 | 1-1 leased 2 @20 #2 w | 3-3 leased 2 @20 #2 w", nil},
		"nack":    {nack(40, "boom", 2, 2), "0/3 | 1-1 leased 2 @20 #2 w | 2-2 available 2 @40 (boom) | 3-3 leased 2 @20 #2 w", nil},
		"release": {release(2, 2), "0/3 | 1-1 leased 2 @20 #2 w | 2-2 available 1 @0 | 3-3 leased 2 @20 #2 w", nil},
		"reject": {
			reject("bad", 2, 2), "0/3 | 1-1 leased 2 @20 #2 w | 3-3 leased 2 @20 #2 w",
			[]ledger.Dead{{From: 2, To: 2, Attempts: 2, Reason: "bad"}},
		},
		"ack all":  {ack(2, 1, 2, 3), "3/3", nil},
		"nack all": {nack(0, "", 2, 1, 2, 3), "0/3 | 1-3 available 2 @0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(0)
			l.Claim(claim(1, 0, 3, high(3)))
			l.Claim(claim(2, 10, 3, high(3)))
			settled := l.Settle(c.batch, 3)
			same(t, slices.Contains(settled.Held, false), false)
			same(t, settled.Dead, c.dead)
			want(t, l, c.state)
		})
	}
}

func TestNackOfTheLastAttemptRejects(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 3))
	settled := l.Settle(nack(99, "boom", 1, 1, 2), 1)
	same(t, settled, ledger.Settled{
		Held: []bool{true, true},
		Dead: []ledger.Dead{{From: 1, To: 2, Attempts: 1, Reason: "boom"}},
	})
	want(t, l, "2/3 | 3-3 leased 1 @10 #1 w")
}

func TestReleaseSpendsNoAttemptAndKeepsTheReason(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2))
	held(t, l, nack(0, "boom", 1, 1), release(1, 2))
	want(t, l, "0/2 | 1-1 available 1 @0 (boom) | 2-2 available 0 @0")
	l.Claim(claim(2, 0, 2))
	held(t, l, release(2, 1, 2))
	want(t, l, "0/2 | 1-1 available 1 @0 (boom) | 2-2 available 0 @0")
}

func TestSettleHoldsOnlyWhatIsLeasedUnderTheClaim(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	held(t, l, ack(1, 1), release(1, 2))
	before := show(l)
	for name, stale := range map[string][]ledger.Settlement{
		"terminal":      ack(1, 1),
		"available":     ack(1, 2),
		"another claim": ack(9, 3),
		"never offered": ack(1, 5),
		"no sequence":   ack(1, -1, 0),
		"no outcome":    settlements(0, 1, 3),
		"no such":       settlements(ledger.Release+1, 1, 3),
	} {
		if slices.Contains(held(t, l, stale), true) {
			t.Errorf("%s: held", name)
		}
		want(t, l, before)
	}
	same(t, l.Settle(nil, 3), ledger.Settled{Held: []bool{}})
	same(t, held(t, l, ack(9, 3), ack(1, 3)), []bool{false, true}) // neither drags the other
}

func TestExpiredLeaseMayBeSettledUntilItIsTaken(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2, high(2)))
	l.Claim(claim(2, 1000, 1, high(2)))
	same(t, held(t, l, ack(1, 1, 2)), []bool{false, true})
	want(t, l, "0/2 | 1-1 leased 2 @1010 #2 w")
}

func TestSettleTakesAnyOrder(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	l.Claim(claim(2, 0, 4))
	got := held(t, l, ack(2, 8, 5), nack(7, "boom", 1, 3), ack(1, 1, 6, 4), ack(2, 6), release(1, 2))
	same(t, got, []bool{true, true, true, true, false, true, true, true})
	want(t, l, "1/8 | 2-2 available 0 @0 | 3-3 available 1 @7 (boom) | 7-7 leased 1 @10 #2 w")
}

func TestSequenceNamedTwiceIsSettledOnce(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 3))
	got := held(t, l, ack(1, 1, 1), nack(0, "boom", 1, 2), ack(1, 2), ack(1, 3), reject("bad", 1, 3))
	same(t, got, []bool{true, false, true, false, true, false})
	want(t, l, "1/3 | 2-2 available 1 @0 (boom)")

	l.Claim(claim(2, 0, 1))
	same(t, held(t, l, ack(2, 2), ack(1, 2), ack(2, 2)), []bool{true, false, false})
	want(t, l, "3/3")
}

// TestStaleItemDoesNotDisplaceTheHolder: first comes, first served only among
// those that hold.
func TestStaleItemDoesNotDisplaceTheHolder(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 2))
	same(t, held(t, l, ack(9, 1), ack(1, 1), ack(9, 2), ack(1, 2)), []bool{false, true, false, true})
	want(t, l, "2/2")
}

func TestDeadLettersAscendAndMerge(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 6))
	settled := l.Settle(slices.Concat(
		reject("b", 1, 6), reject("a", 1, 3, 1), nack(0, "a", 1, 2), reject("a", 1, 5)), 1)
	same(t, settled.Dead, []ledger.Dead{
		{From: 1, To: 3, Attempts: 1, Reason: "a"},
		{From: 5, To: 5, Attempts: 1, Reason: "a"},
		{From: 6, To: 6, Attempts: 1, Reason: "b"},
	})
	want(t, l, "3/6 | 4-4 leased 1 @10 #1 w")
}

func TestSettledRunsMergeWithTheirNeighbours(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 300, high(300)))
	held(t, l, nack(5, "x", 1, sequence(1, 300, 2)...))
	same(t, l.Len(), 300)
	held(t, l, nack(5, "x", 1, sequence(2, 300, 4)...))
	same(t, l.Len(), 150)
	held(t, l, nack(5, "x", 1, sequence(4, 300, 4)...))
	want(t, l, "0/300 | 1-300 available 1 @5 (x)")
}
