package ledger_test

import (
	"math"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestDueAndHeld(t *testing.T) {
	t.Parallel()
	check := func(l *ledger.Ledger, due, held int64) {
		t.Helper()
		if l.Due() != due || l.Held() != held {
			t.Errorf("due %d and held %d, want %d and %d", l.Due(), l.Held(), due, held)
		}
	}
	l := ledger.New(0)
	check(l, math.MaxInt64, math.MinInt64)
	l.Claim(ledger.Claim{ID: 1, Now: 10, Expires: 50, Max: 3, High: 9})
	check(l, 50, 50)
	l.Settle([]ledger.Settlement{{Ref: ledger.Ref{Sequence: 1, Claim: 1}, Outcome: ledger.Nack, NotBefore: 70}}, 0)
	check(l, 50, 70)
	l.Settle([]ledger.Settlement{{Ref: ledger.Ref{Sequence: 2, Claim: 1}, Outcome: ledger.Nack}}, 0)
	check(l, 0, 70)
	l.Reopen(1, 3)
	check(l, 0, 0)
	for _, ordered := range []bool{false, true} { // what Held promises
		l := ledger.New(0)
		l.Claim(ledger.Claim{ID: 1, Now: 10, Expires: 50, Max: 3, High: 9})
		got := l.Claim(ledger.Claim{ID: 2, Now: l.Held() - 1, Expires: 99, Max: 3, High: 9, Ordered: ordered})
		if len(got.Spans) == 0 != ordered {
			t.Errorf("ordered %v: claimed %v before it was no longer held", ordered, got.Spans)
		}
	}
}
