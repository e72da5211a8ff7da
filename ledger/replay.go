package ledger

import (
	"errors"
	"fmt"
	"slices"
)

// ErrTooManyRuns is returned by ReopenEach if the sequences lie too scattered.
var ErrTooManyRuns = errors.New("ledger: too many runs")

// Reopen replays the sequences from..to, as far as they have been offered:
// all of them become available at once, with no attempt spent, whatever they
// were. Leases among them are no longer held. What lies outside the range, and
// what was never offered, is left to be delivered as before.
func (l *Ledger) Reopen(from, to int64) {
	from, to = max(from, 1), min(to, l.cursor)
	if from > to {
		return
	}
	e := l.runs.edit()
	e.put(Run{From: from, To: to, State: Available})
	e.close()
}

// ReopenEach is Reopen for single sequences, in any order; those never offered
// are ignored. If that left the ledger with more runs than it had, and with
// more than maxRuns, it returns [ErrTooManyRuns] and changes nothing. If
// maxRuns is below 1 there is no bound.
func (l *Ledger) ReopenEach(sequences []int64, maxRuns int) error {
	ascending := slices.Clone(sequences)
	slices.Sort(ascending)
	reopened := l.runs.clone()
	e := reopened.edit()
	for len(ascending) > 0 {
		from, to, n := leadingRange(ascending)
		ascending = ascending[n:]
		if from, to = max(from, 1), min(to, l.cursor); from <= to {
			e.put(Run{From: from, To: to, State: Available})
		}
	}
	e.close()
	if maxRuns > 0 && reopened.n > max(maxRuns, l.runs.n) {
		return fmt.Errorf("%w: reopening %d sequences would make %d, and the bound is %d; reopen fewer, or a range",
			ErrTooManyRuns, len(sequences), reopened.n, maxRuns)
	}
	l.runs = reopened
	return nil
}

// leadingRange returns the range without gaps that the ascending sequences
// begin with, and how many of them are in it.
func leadingRange(sequences []int64) (from, to int64, n int) {
	from, to = sequences[0], sequences[0]
	for n = 1; n < len(sequences); n++ {
		if sequences[n] != to && sequences[n] != to+1 {
			break
		}
		to = sequences[n]
	}
	return from, to, n
}

// Reset makes the ledger one that [New] returns: everything up to cursor is
// terminal, and everything above has never been offered.
func (l *Ledger) Reset(cursor int64) {
	*l = *New(cursor)
}
