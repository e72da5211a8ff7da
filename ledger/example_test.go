package ledger_test

import (
	"fmt"

	"github.com/rheo-go/rheo/ledger"
)

// A fetch of five events: four are acked, one fails, and is delivered again
// when its time has come.
func Example() {
	l := ledger.New(0)
	fetched := l.Claim(ledger.Claim{ID: 1, Consumer: "worker", Now: 100, Expires: 130, Max: 5, High: 5, MaxAttempts: 3})
	fmt.Println("fetched:", fetched.Spans)

	var batch []ledger.Settlement
	for s := int64(1); s <= 5; s++ {
		item := ledger.Settlement{Ref: ledger.Ref{Sequence: s, Claim: 1}, Outcome: ledger.Ack}
		if s == 3 {
			item.Outcome, item.NotBefore, item.Reason = ledger.Nack, 160, "timeout"
		}
		batch = append(batch, item)
	}
	fmt.Println("held:", l.Settle(batch, 3).Held)
	for run := range l.All() {
		fmt.Printf("frontier %d, cursor %d, open: %+v\n", l.Frontier(), l.Cursor(), run)
	}

	again := l.Claim(ledger.Claim{ID: 2, Consumer: "worker", Now: 160, Expires: 190, Max: 5, High: 5, MaxAttempts: 3})
	fmt.Println("fetched:", again.Spans)
	// Output:
	// fetched: [{1 5 1 }]
	// held: [true true true true true]
	// frontier 2, cursor 5, open: {From:3 To:3 State:available Attempt:1 At:160 Claim:0 Consumer: Reason:timeout}
	// fetched: [{3 3 2 timeout}]
}

// A lease that expired and was taken again is fenced: the first holder's ack
// changes nothing.
func ExampleLedger_Settle() {
	l := ledger.New(0)
	l.Claim(ledger.Claim{ID: 1, Consumer: "slow", Now: 100, Expires: 130, Max: 1, High: 1, MaxAttempts: 3})
	l.Claim(ledger.Claim{ID: 2, Consumer: "quick", Now: 130, Expires: 160, Max: 1, High: 1, MaxAttempts: 3})

	settled := l.Settle([]ledger.Settlement{
		{Ref: ledger.Ref{Sequence: 1, Claim: 1}, Outcome: ledger.Ack},
		{Ref: ledger.Ref{Sequence: 1, Claim: 2}, Outcome: ledger.Ack},
	}, 3)
	fmt.Println(settled.Held, l.Frontier())
	// Output: [false true] 1
}
