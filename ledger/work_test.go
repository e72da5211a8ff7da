package ledger_test

import (
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

// workOf returns the runs that f looks at or moves, by the ledger's own count.
func workOf(l *ledger.Ledger, f func()) int {
	before := ledger.Work(l)
	f()
	return ledger.Work(l) - before
}

// TestClaimingOneMoreCostsTheSameWithManyHeld: 20,000 leases in as many runs
// are not looked at while none can have expired.
func TestClaimingOneMoreCostsTheSameWithManyHeld(t *testing.T) {
	t.Parallel()
	const n = 20_000
	l := singles(n)
	same(t, l.Len(), n)
	next := func(l *ledger.Ledger, now int64) int {
		return workOf(l, func() { l.Claim(claim(1e9, now, 1, high(1e6))) })
	}
	if work, alone := next(l, 500), next(ledger.New(0), 500); work != alone {
		t.Errorf("work %d, and %d with none held", work, alone)
	}
	// One lease expires: its chunk is found by the summaries.
	if work := next(l, 1000); work > 3*n/ledger.ChunkRuns+4*ledger.ChunkRuns {
		t.Errorf("work %d for one lease expired", work)
	}
}

func TestSettlingCostsWhatItChanges(t *testing.T) {
	t.Parallel()
	const n, chunk = 20_000, ledger.ChunkRuns
	for name, c := range map[string]struct {
		sequences []int64
		limit     int
	}{
		"the first":  {sequence(1, 1, 1), 4 * chunk},
		"one inside": {sequence(n/2, n/2, 1), 4 * chunk},
		"the last":   {sequence(n, n, 1), 4 * chunk},
		"neighbours": {sequence(5000, 5999, 1), 4 * (1000 + chunk)},
		"scattered":  {sequence(1, n, 200), 100 * 4 * chunk},
		"all":        {sequence(1, n, 1), 6 * n},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := singles(n)
			work := workOf(l, func() { l.Settle(acksOfSingles(c.sequences...), 3) })
			same(t, l.Len(), n-len(c.sequences))
			if work > c.limit {
				t.Errorf("work %d, limit %d", work, c.limit)
			}
		})
	}
}

// TestDrainingABacklogIsNotQuadratic takes up many leases that have all
// expired, and settles them, one at a time.
func TestDrainingABacklogIsNotQuadratic(t *testing.T) {
	t.Parallel()
	const n, chunk = 5000, ledger.ChunkRuns
	l := singles(n)
	work := workOf(l, func() {
		for i := range int64(n) {
			id := uint64(n + 1 + i)
			span := l.Claim(claim(id, 1_000_000, 1, high(n))).Spans[0]
			same(t, span, ledger.Span{From: i + 1, To: i + 1, Attempt: 2})
		}
		for i := range int64(n) {
			held(t, l, ack(uint64(n+1+i), i+1))
		}
	})
	want(t, l, "5000/5000")
	if limit := n * (2*n/chunk + 8*chunk); work > limit {
		t.Errorf("work %d, limit %d", work, limit)
	}
}

// TestMemoryFollowsTheRuns: a ledger that was large is small again.
func TestMemoryFollowsTheRuns(t *testing.T) {
	l := holes(50_000)
	held(t, l, ack(1, sequence(1, 99_997, 2)...))
	want(t, l, "99998/100000 | 99999-99999 leased 1 @10 #1 w")
	if n := ledger.Capacity(l); n > 50 {
		t.Errorf("buffers for %d runs", n)
	}
}

func TestClaimAndSettleAllocateOnlyTheirResults(t *testing.T) {
	l := ledger.New(0)
	batch := make([]ledger.Settlement, 100)
	cycle := claimAndSettle(l, batch)
	if n := testing.AllocsPerRun(100, cycle); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
