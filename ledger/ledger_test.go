package ledger_test

import (
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestNewLedgerTakesWhatLiesBeforeAsTerminal(t *testing.T) {
	t.Parallel()
	l := ledger.New(5)
	want(t, l, "5/5")

	same(t, l.Claim(claim(1, 0, 10, high(5))), ledger.Claimed{})
	same(t, l.Claim(claim(2, 0, 10, high(7))), ledger.Claimed{Spans: []ledger.Span{{From: 6, To: 7, Attempt: 1}}})
	want(t, l, "5/7 | 6-7 leased 1 @10 #2 w")
	same(t, held(t, l, ack(2, 6, 7)), []bool{true, true})
	want(t, l, "7/7")

	want(t, ledger.New(-3), "0/0")
}

func TestZeroValueIsReady(t *testing.T) {
	t.Parallel()
	var l ledger.Ledger
	want(t, &l, "0/0")
	l.Claim(claim(1, -50, 2))
	want(t, &l, "0/2 | 1-2 leased 1 @-40 #1 w")
}

func TestCountSplitsOpenDeliveriesByInFlight(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 5))              // 1-5, until 10
	l.Claim(claim(2, 5, 3))              // 6-8, until 15
	held(t, l, nack(100, "later", 1, 2)) // waits, due or not
	held(t, l, ack(2, 7), release(1, 3)) // one less, one waiting
	for now, counts := range map[int64]ledger.Counts{
		9:  {InFlight: 5, Waiting: 2}, // 1 4 5 6 8
		10: {InFlight: 2, Waiting: 5}, // 6 8
		15: {InFlight: 0, Waiting: 7},
	} {
		same(t, l.Count(now), counts)
	}
}

func TestCloneIsApart(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 5))
	clone := l.Clone()
	held(t, l, ack(1, 1, 2, 3))
	clone.Claim(claim(2, 10, 1))
	want(t, l, "3/5 | 4-5 leased 1 @10 #1 w")
	want(t, clone, "0/5 | 1-1 leased 2 @20 #2 w | 2-5 leased 1 @10 #1 w")
}

func TestAllStopsWhenToldTo(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 1))
	l.Claim(claim(2, 0, 1))
	for run := range l.All() {
		same(t, run.From, 1)
		break
	}
}

func TestStatesAndOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	for got, name := range map[interface{ String() string }]string{
		ledger.Available: "available", ledger.Leased: "leased", ledger.State(9): "State(9)",
		ledger.Ack: "ack", ledger.Nack: "nack", ledger.Reject: "reject", ledger.Release: "release",
		ledger.Outcome(0): "Outcome(0)",
	} {
		same(t, got.String(), name)
	}
}
