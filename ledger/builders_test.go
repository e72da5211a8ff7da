package ledger_test

import "github.com/rheo-go/rheo/ledger"

// holes returns a ledger of n runs of one sequence each, every other of 1..2n,
// all leased by claim 1 until 10.
func holes(n int64) *ledger.Ledger {
	l := ledger.New(0)
	l.Claim(claim(1, 0, int(2*n), high(2*n)))
	l.Settle(ack(1, sequence(2, 2*n, 2)...), 3)
	return l
}

// singles returns a ledger of n runs of one sequence each, 1..n, each leased
// by the claim of its number until 1000 and later.
func singles(n int) *ledger.Ledger {
	l := ledger.New(0)
	for i := range n {
		c := claim(uint64(i+1), 0, 1, high(int64(n)))
		c.Expires = int64(1000 + i)
		l.Claim(c)
	}
	return l
}

func acksOfSingles(sequences ...int64) []ledger.Settlement {
	var list []ledger.Settlement
	for _, s := range sequences {
		list = append(list, ack(uint64(s), s)...)
	}
	return list
}

// mixed returns a ledger of n runs as a busy group may have them: leases of
// many claims and consumers, renewed or not, and failed deliveries that wait.
func mixed(n int64) *ledger.Ledger {
	l := ledger.New(1_000_000_000)
	consumers := []string{"worker-7f9c-1", "worker-7f9c-2", "worker-81aa-1"}
	now := int64(1_780_000_000_000_000)
	for id := uint64(1 << 60); int64(l.Len()) < n; id++ {
		now += 1234
		c := ledger.Claim{
			ID: id * 0x9E3779B97F4A7C15, Consumer: consumers[id%3], Now: now, Expires: now + 30_000_000,
			Max: 100, High: 1 << 60, MaxAttempts: 5,
		}
		span := l.Claim(c).Spans[0]
		l.Settle(ack(c.ID, sequence(span.From, span.To, 2)...), 5)
		l.Settle(nack(now+60_000_000, "dial tcp: connection refused", c.ID, sequence(span.From+1, span.To, 10)...), 5)
		l.Renew(refs(c.ID, sequence(span.From+3, span.To, 10)...), now+45_000_000)
	}
	return l
}
