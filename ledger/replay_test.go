package ledger_test

import (
	"errors"
	"math"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestReopenMakesARangeAvailableAfresh(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 8))
	held(t, l, ack(1, 1, 2, 5), nack(50, "boom", 1, 4))
	l.Reopen(2, 6)
	want(t, l, "1/8 | 2-6 available 0 @0 | 7-8 leased 1 @10 #1 w")
	same(t, held(t, l, ack(1, 3, 6, 7)), []bool{false, false, true}) // fenced, and one that is not
	same(t, l.Claim(claim(2, 0, 9)).Spans, []ledger.Span{{From: 2, To: 6, Attempt: 1}, {From: 9, To: 12, Attempt: 1}})
}

// TestReopenNeverSkips: what lies between the frontier and the range replayed
// is delivered as before, and so is what is appended afterwards.
func TestReopenNeverSkips(t *testing.T) {
	t.Parallel()
	l := ledger.New(10)
	l.Reopen(150, math.MaxInt64)
	want(t, l, "10/10")
	same(t, l.Claim(claim(1, 0, 500, high(200))).Spans, []ledger.Span{{From: 11, To: 200, Attempt: 1}})

	held(t, l, ack(1, sequence(151, 200, 1)...))
	l.Reopen(150, math.MaxInt64)
	want(t, l, "10/200 | 11-149 leased 1 @10 #1 w | 150-200 available 0 @0")
	same(t, l.Claim(claim(2, 10, 500, high(205))).Spans, []ledger.Span{
		{From: 11, To: 149, Attempt: 2},
		{From: 150, To: 205, Attempt: 1},
	})
}

func TestReopenIgnoresWhatIsNotThere(t *testing.T) {
	t.Parallel()
	l := ledger.New(5)
	l.Reopen(6, 9)
	l.Reopen(3, 2)
	l.Reopen(math.MinInt64, 0)
	want(t, l, "5/5")
	l.Reopen(math.MinInt64, math.MaxInt64)
	want(t, l, "0/5 | 1-5 available 0 @0")
}

func TestReopenSpansManyChunks(t *testing.T) {
	t.Parallel()
	l := holes(1000)
	l.Reopen(100, 1900)
	same(t, l.Len(), 50+1+50)
	if err := ledger.Check(l); err != nil {
		t.Fatal(err)
	}
	l.Reopen(1, 2000)
	want(t, l, "0/2000 | 1-2000 available 0 @0")
}

func TestReopenEachOpensSingleSequences(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 9, high(9)))
	held(t, l, ack(1, sequence(1, 7, 1)...))
	if err := l.ReopenEach([]int64{8, 3, 99, 2, 3, 0, -4, 5}, 10); err != nil {
		t.Fatal(err)
	}
	want(t, l, "1/9 | 2-3 available 0 @0 | 5-5 available 0 @0 | 8-8 available 0 @0 | 9-9 leased 1 @10 #1 w")
	same(t, held(t, l, ack(1, 8, 9)), []bool{false, true})
}

func TestReopenEachIsBounded(t *testing.T) {
	t.Parallel()
	l := ledger.New(20)
	err := l.ReopenEach([]int64{2, 4, 6, 8}, 3)
	if !errors.Is(err, ledger.ErrTooManyRuns) {
		t.Fatalf("got %v", err)
	}
	want(t, l, "20/20")

	for _, unbounded := range []int{4, 0, -1} {
		l.Reset(20)
		if err := l.ReopenEach([]int64{2, 4, 6, 8}, unbounded); err != nil {
			t.Fatal(err)
		}
		same(t, l.Len(), 4)
	}
	// It has more than the bound already: no more, but no fewer need be.
	if err := l.ReopenEach([]int64{2, 3, 4}, 3); err != nil {
		t.Fatal(err)
	}
	want(t, l, "1/20 | 2-4 available 0 @0 | 6-6 available 0 @0 | 8-8 available 0 @0")
}

func TestResetStartsOver(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 9))
	l.Reset(3)
	want(t, l, "3/3")
	same(t, held(t, l, ack(1, 4)), []bool{false})
	same(t, l.Claim(claim(2, 0, 1)).Spans, []ledger.Span{{From: 4, To: 4, Attempt: 1}})
}
