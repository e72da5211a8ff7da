package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rheo-go/rheo/ledger"
)

// show writes a ledger on a line, for tests to compare: the frontier, the
// cursor, and the runs between them as
//
//	FROM-TO leased ATTEMPT @EXPIRES #CLAIM CONSUMER (REASON)
//	FROM-TO available ATTEMPT @NOTBEFORE (REASON)
func show(l *ledger.Ledger) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d", l.Frontier(), l.Cursor())
	for r := range l.All() {
		fmt.Fprintf(&b, " | %d-%d %v %d @%d", r.From, r.To, r.State, r.Attempt, r.At)
		if r.State == ledger.Leased {
			fmt.Fprintf(&b, " #%d %s", r.Claim, r.Consumer)
		}
		if r.Reason != "" {
			fmt.Fprintf(&b, " (%s)", r.Reason)
		}
	}
	return b.String()
}

func want(t *testing.T, l *ledger.Ledger, state string) {
	t.Helper()
	same(t, show(l), state)
	if err := ledger.Check(l); err != nil {
		t.Error(err)
	}
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// claim is a Claim by w at time now, for ten time units, of events up to 100;
// each change is applied to it.
func claim(id uint64, now int64, n int, changes ...func(*ledger.Claim)) ledger.Claim {
	c := ledger.Claim{ID: id, Consumer: "w", Now: now, Expires: now + 10, Max: n, High: 100, MaxAttempts: 3}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func ordered(c *ledger.Claim) { c.Ordered = true }

func high(n int64) func(*ledger.Claim) { return func(c *ledger.Claim) { c.High = n } }

func maxRuns(n int) func(*ledger.Claim) { return func(c *ledger.Claim) { c.MaxRuns = n } }

func maxAttempts(n int) func(*ledger.Claim) { return func(c *ledger.Claim) { c.MaxAttempts = n } }

func refs(claim uint64, sequences ...int64) []ledger.Ref {
	var list []ledger.Ref
	for _, s := range sequences {
		list = append(list, ledger.Ref{Sequence: s, Claim: claim})
	}
	return list
}

func settlements(o ledger.Outcome, claim uint64, sequences ...int64) []ledger.Settlement {
	var list []ledger.Settlement
	for _, ref := range refs(claim, sequences...) {
		list = append(list, ledger.Settlement{Ref: ref, Outcome: o})
	}
	return list
}

func ack(claim uint64, sequences ...int64) []ledger.Settlement {
	return settlements(ledger.Ack, claim, sequences...)
}

func release(claim uint64, sequences ...int64) []ledger.Settlement {
	return settlements(ledger.Release, claim, sequences...)
}

func nack(notBefore int64, reason string, claim uint64, sequences ...int64) []ledger.Settlement {
	list := settlements(ledger.Nack, claim, sequences...)
	for i := range list {
		list[i].NotBefore, list[i].Reason = notBefore, reason
	}
	return list
}

func reject(reason string, claim uint64, sequences ...int64) []ledger.Settlement {
	list := settlements(ledger.Reject, claim, sequences...)
	for i := range list {
		list[i].Reason = reason
	}
	return list
}

// sequence returns from, from+step … up to to.
func sequence(from, to, step int64) []int64 {
	var list []int64
	for s := from; s <= to; s += step {
		list = append(list, s)
	}
	return list
}

// held settles and returns which were held, failing the test at dead letters.
func held(t *testing.T, l *ledger.Ledger, batches ...[]ledger.Settlement) []bool {
	t.Helper()
	settled := l.Settle(slices.Concat(batches...), 3)
	if settled.Dead != nil {
		t.Errorf("unexpected dead letters: %+v", settled.Dead)
	}
	return settled.Held
}
