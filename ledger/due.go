package ledger

import "math"

// Due returns the time from which on a [Claim] may find open deliveries to hand
// out again, or [math.MaxInt64] if none is open. A store that keeps it beside the
// ledger can choose the partitions worth a fetch without decoding.
func (l *Ledger) Due() int64 {
	due := int64(math.MaxInt64)
	for i := range l.runs.chunks {
		due = min(due, l.runs.chunks[i].due)
	}
	return due
}

// Held returns the time up to which an ordered [Claim] hands out nothing: until
// then a lease is unexpired, or the lowest open delivery is not due.
func (l *Ledger) Held() int64 {
	first := l.runs.first()
	if first == nil {
		return math.MinInt64
	}
	held := first.At
	for i := range l.runs.chunks {
		held = max(held, l.runs.chunks[i].busy)
	}
	return held
}
