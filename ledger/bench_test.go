package ledger_test

import (
	"fmt"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

// claimAndSettle returns a function that claims a batch and acks it.
func claimAndSettle(l *ledger.Ledger, batch []ledger.Settlement) func() {
	id := uint64(1 << 40)
	return func() {
		id++
		got := l.Claim(ledger.Claim{ID: id, Consumer: "w", Expires: 10, Max: len(batch), High: 1 << 60, MaxAttempts: 5})
		first := got.Spans[0].From
		for i := range batch {
			batch[i] = ledger.Settlement{Ref: ledger.Ref{Sequence: first + int64(i), Claim: id}, Outcome: ledger.Ack}
		}
		l.Settle(batch, 5)
	}
}

// BenchmarkClaimSettle claims and acks a batch, on a ledger that holds runs.
func BenchmarkClaimSettle(b *testing.B) {
	for _, runs := range []int{0, 10_000} {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("runs=%d/batch=%d", runs, size), func(b *testing.B) {
				cycle := claimAndSettle(singles(runs), make([]ledger.Settlement, size))
				b.ReportAllocs()
				for b.Loop() {
					cycle()
				}
			})
		}
	}
}

// BenchmarkClaim claims one event, with leases held in as many runs.
func BenchmarkClaim(b *testing.B) {
	for _, runs := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("held=%d", runs), func(b *testing.B) {
			l := singles(runs)
			c := ledger.Claim{ID: 1 << 40, Consumer: "w", Expires: 1000, Max: 1, High: 1 << 60, MaxAttempts: 5}
			b.ReportAllocs()
			for b.Loop() {
				l.Claim(c)
			}
		})
	}
}

// BenchmarkRedeliver nacks one delivery of many and claims it again.
func BenchmarkRedeliver(b *testing.B) {
	l := singles(10_000)
	id := uint64(5000)
	b.ReportAllocs()
	for b.Loop() {
		l.Settle([]ledger.Settlement{{Ref: ledger.Ref{Sequence: 5000, Claim: id}, Outcome: ledger.Nack}}, 0)
		id++
		l.Claim(ledger.Claim{ID: id, Consumer: "w", Expires: 1 << 40, Max: 1})
	}
}

// BenchmarkSettleScattered acks deliveries of 10,000 runs, and opens them again.
func BenchmarkSettleScattered(b *testing.B) {
	for _, size := range []int64{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			l := singles(10_000)
			batch := acksOfSingles(sequence(50, 10_000, 10_000/size)...)
			b.ReportAllocs()
			for b.Loop() {
				l.Settle(batch, 5)
				for _, item := range batch {
					_ = l.Restore(item.Claim, "w", 1<<40, []ledger.Span{{From: item.Sequence, To: item.Sequence, Attempt: 1}})
				}
			}
		})
	}
}

// BenchmarkSettleShuffled acks a batch of one claim in reverse order.
func BenchmarkSettleShuffled(b *testing.B) {
	l := ledger.New(0)
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		id++
		got := l.Claim(ledger.Claim{ID: id, Consumer: "w", Expires: 10, Max: 100, High: 1 << 60})
		batch := make([]ledger.Settlement, 100)
		for i := range batch {
			batch[i] = ledger.Settlement{Ref: ledger.Ref{Sequence: got.Spans[0].To - int64(i), Claim: id}, Outcome: ledger.Ack}
		}
		l.Settle(batch, 5)
	}
}

// BenchmarkRenewAll renews 10,000 leases in as many runs.
func BenchmarkRenewAll(b *testing.B) {
	l := singles(10_000)
	var all []ledger.Ref
	for run := range l.All() {
		all = append(all, ledger.Ref{Sequence: run.From, Claim: run.Claim})
	}
	expires := int64(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		expires++
		l.Renew(all, expires)
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, l := range encodings() {
		b.Run(name, func(b *testing.B) {
			var data []byte
			b.ReportAllocs()
			for b.Loop() {
				data, _ = l.AppendBinary(data[:0])
			}
			b.ReportMetric(float64(len(data)), "bytes")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, l := range encodings() {
		b.Run(name, func(b *testing.B) {
			data := encode(l)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.UnmarshalBinary(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func encodings() map[string]*ledger.Ledger {
	few := ledger.New(0)
	few.Claim(claim(1, 0, 10))
	few.Claim(claim(2, 0, 10))
	return map[string]*ledger.Ledger{"runs=2": few, "runs=10000/mixed": mixed(10_000), "runs=10000/singles": singles(10_000)}
}
