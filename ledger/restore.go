package ledger

import "fmt"

// Restore applies again what a Claim handed out, as recorded elsewhere (in a
// log of changes since the ledger was last stored, say): the spans become
// leased as given, whatever they were, and the cursor moves up to cover them.
// They must be as Claim returns them, ascending and starting no further than
// just above the cursor; else Restore returns [ErrCorrupt] and changes nothing.
//
// What the same Claim rejected is not covered.
func (l *Ledger) Restore(claim uint64, consumer string, expires int64, spans []Span) error {
	cursor, err := l.cursorAfter(spans)
	if err != nil {
		return err
	}
	l.cursor = cursor
	e := l.runs.edit()
	for _, span := range spans {
		e.put(leased(claim, consumer, expires, span))
	}
	e.close()
	return nil
}

// cursorAfter checks spans and returns where they leave the cursor.
func (l *Ledger) cursorAfter(spans []Span) (int64, error) {
	cursor, before := l.cursor, int64(0)
	for i, s := range spans {
		switch {
		case s.From <= before || s.To < s.From:
			return 0, fmt.Errorf("%w: span %d (%d..%d) is empty or out of order", ErrCorrupt, i, s.From, s.To)
		case s.From-1 > cursor:
			return 0, fmt.Errorf("%w: span %d begins at %d, beyond the cursor %d", ErrCorrupt, i, s.From, cursor)
		case s.Attempt < 1 || s.Attempt > maxAttempt:
			return 0, fmt.Errorf("%w: span %d is on attempt %d", ErrCorrupt, i, s.Attempt)
		}
		before, cursor = s.To, max(cursor, s.To)
	}
	return cursor, nil
}

// ExpireAll ends at now every lease that would run longer, for a store whose
// holders have all died with their one process. Attempts stay counted, and
// nothing is taken from anyone until it is claimed again.
func (l *Ledger) ExpireAll(now int64) {
	before := l.runs
	l.runs = runList{}
	for run := range before.all() {
		if run.inFlight(now) {
			run.At = now
		}
		l.runs.push(run)
	}
}
