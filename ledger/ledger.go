package ledger

import (
	"iter"
	"strconv"
)

// DefaultMaxRuns is the bound on the runs of a ledger that a group uses unless
// told otherwise; see [Claim].
const DefaultMaxRuns = 10_000

// A State is what an open delivery is in. Terminal deliveries have none: they
// lie in no run.
type State uint8

const (
	// Available deliveries wait to be fetched.
	Available State = iota + 1
	// Leased deliveries were fetched and are not yet settled, in time or not.
	Leased
)

// String returns "available" or "leased".
func (s State) String() string {
	switch s {
	case Available:
		return "available"
	case Leased:
		return "leased"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// A Run is a range of open deliveries in one state.
type Run struct {
	From, To int64 // both included
	State    State
	Attempt  int    // leased: the attempt under way, from 1; available: the attempts spent
	At       int64  // leased: when the lease expires; available: not before; 0 is at once
	Claim    uint64 // leased only: the fencing token of the fetch
	Consumer string // leased only
	Reason   string // why the last attempt failed, if one did
}

func (r *Run) len() int64 { return r.To - r.From + 1 }

// inFlight reports whether the run is leased and unexpired.
func (r *Run) inFlight(now int64) bool { return r.State == Leased && r.At > now }

// continues reports whether next begins where r ends, in the same state, so
// that the two have to be one run.
func (r *Run) continues(next *Run) bool {
	return r.To == next.From-1 &&
		r.At == next.At && r.Claim == next.Claim && r.State == next.State && r.Attempt == next.Attempt &&
		r.Consumer == next.Consumer && r.Reason == next.Reason
}

// Counts are the open deliveries of a ledger, in sequences.
type Counts struct {
	InFlight int64 // leased and unexpired
	Waiting  int64 // open but not in flight: available, or leased and expired
}

// A Ledger is the state of the deliveries of one group in one partition. The
// zero value is a ledger at cursor 0. It is not safe for concurrent use.
type Ledger struct {
	cursor int64
	runs   runList
}

// New returns a ledger that takes everything up to cursor as terminal: its
// frontier is cursor, and the first event that it offers is the one after. A
// negative cursor counts as 0.
func New(cursor int64) *Ledger {
	return &Ledger{cursor: max(cursor, 0)}
}

// Cursor returns the highest sequence ever offered.
func (l *Ledger) Cursor() int64 { return l.cursor }

// Frontier returns the highest sequence such that it and all before it are
// terminal.
func (l *Ledger) Frontier() int64 {
	if first := l.runs.first(); first != nil {
		return first.From - 1
	}
	return l.cursor
}

// Len returns the number of runs.
func (l *Ledger) Len() int { return l.runs.n }

// All returns the runs, ascending. The ledger must not be changed meanwhile.
func (l *Ledger) All() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for run := range l.runs.all() {
			if !yield(*run) {
				return
			}
		}
	}
}

// Count counts the open deliveries as they stand at now. It looks at every run.
func (l *Ledger) Count(now int64) Counts {
	var counts Counts
	for run := range l.runs.all() {
		if run.inFlight(now) {
			counts.InFlight += run.len()
		} else {
			counts.Waiting += run.len()
		}
	}
	return counts
}

// Clone returns a copy that shares nothing that changes.
func (l *Ledger) Clone() *Ledger {
	return &Ledger{cursor: l.cursor, runs: l.runs.clone()}
}
