package ledger_test

import (
	"errors"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func TestRestoreRepeatsAClaim(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	held(t, l, ack(1, 1, 4), nack(0, "boom", 1, 2))
	copied := l.Clone()

	c := claim(2, 10, 5)
	claimed := l.Claim(c)
	for range 2 { // once more does no harm
		if err := copied.Restore(c.ID, c.Consumer, c.Expires, claimed.Spans); err != nil {
			t.Fatal(err)
		}
		want(t, copied, show(l))
	}
}

func TestRestoreOverwritesWhatWasThere(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 4))
	held(t, l, ack(1, 2))
	spans := []ledger.Span{{From: 1, To: 1, Attempt: 2, Reason: "boom"}, {From: 2, To: 3, Attempt: 1}, {From: 5, To: 6, Attempt: 1}}
	if err := l.Restore(2, "v", 30, spans); err != nil {
		t.Fatal(err)
	}
	want(t, l, "0/6 | 1-1 leased 2 @30 #2 v (boom) | 2-3 leased 1 @30 #2 v | 4-4 leased 1 @10 #1 w | 5-6 leased 1 @30 #2 v")
}

func TestRestoreRefusesWhatNoClaimReturns(t *testing.T) {
	t.Parallel()
	for name, spans := range map[string][]ledger.Span{
		"beyond the cursor": {{From: 7, To: 8, Attempt: 1}},
		"gap between":       {{From: 6, To: 6, Attempt: 1}, {From: 8, To: 8, Attempt: 1}},
		"backwards":         {{From: 4, To: 3, Attempt: 1}},
		"no sequence":       {{From: 0, To: 3, Attempt: 1}},
		"descending":        {{From: 4, To: 4, Attempt: 1}, {From: 1, To: 1, Attempt: 1}},
		"overlapping":       {{From: 1, To: 4, Attempt: 1}, {From: 4, To: 5, Attempt: 1}},
		"no attempt":        {{From: 1, To: 4, Attempt: 1}, {From: 5, To: 5}},
		"absurd attempt":    {{From: 1, To: 4, Attempt: 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(5)
			if err := l.Restore(1, "w", 10, spans); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			want(t, l, "5/5")
		})
	}
}

func TestExpireAllEndsLeasesButTakesNothing(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 3))
	l.Renew(refs(1, 2), 50)
	l.Claim(claim(2, 90, 1, high(0)))
	held(t, l, nack(80, "boom", 1, 3))
	l.ExpireAll(5)
	want(t, l, "0/3 | 1-1 leased 2 @5 #2 w | 2-2 leased 1 @5 #1 w | 3-3 available 1 @80 (boom)")
	l.ExpireAll(7) // never later
	same(t, held(t, l, ack(1, 2)), []bool{true})
	same(t, l.Claim(claim(3, 5, 5, high(3))).Spans, []ledger.Span{{From: 1, To: 1, Attempt: 3}})
}

func TestExpireAllMerges(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	l.Claim(claim(1, 0, 3))
	l.Renew(refs(1, 2), 50)
	l.ExpireAll(5)
	want(t, l, "0/3 | 1-3 leased 1 @5 #1 w")
}
