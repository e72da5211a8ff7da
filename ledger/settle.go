package ledger

import "strconv"

// A Ref names a delivery and the claim under which it is held.
type Ref struct {
	Sequence int64
	Claim    uint64
}

// An Outcome is how a delivery is settled.
type Outcome uint8

const (
	// Ack ends the delivery: the event was handled.
	Ack Outcome = iota + 1
	// Nack makes it available again from NotBefore on; on the last attempt it
	// rejects.
	Nack
	// Reject ends the delivery: the event is a dead letter.
	Reject
	// Release gives it back at once, as if it had not been fetched.
	Release
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Ack:
		return "ack"
	case Nack:
		return "nack"
	case Reject:
		return "reject"
	case Release:
		return "release"
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

// A Settlement settles one delivery.
type Settlement struct {
	Ref
	Outcome   Outcome
	NotBefore int64  // Nack; 0 is at once
	Reason    string // Nack and Reject
}

// Settled is the result of a batch of settlements.
type Settled struct {
	Held []bool // by the index in the batch: whether the lease was held, and so is settled
	Dead []Dead // ascending; neighbours that are alike are one entry
}

// Settle settles the deliveries of the batch that are held: leased under the
// claim named, even if the lease has expired. Others it reports and leaves
// alone; neither kind affects the other. A delivery settled by one item is no
// longer held for a later one. An item whose outcome is none of the four is
// not held.
//
// A Nack of attempt maxAttempts or above rejects, with the same reason; if
// maxAttempts is below 1 there is no bound.
//
// The batch may be in any order, and is fastest ascending. Items next to each
// other that end a run's deliveries alike cost little more than one.
func (l *Ledger) Settle(batch []Settlement, maxAttempts int) Settled {
	s := settling{
		edit:        l.runs.edit(),
		batch:       batch,
		order:       ascending(len(batch), func(i int) int64 { return batch[i].Sequence }),
		maxAttempts: maxAttempts,
		Settled:     Settled{Held: make([]bool, len(batch))},
	}
	for i := 0; i < len(batch); {
		i = s.settleFrom(i)
	}
	s.edit.close()
	return s.Settled
}

// A settling is a batch under way.
type settling struct {
	edit        editor
	batch       []Settlement
	order       []int // nil: the batch is in order
	maxAttempts int
	Settled
}

// settleFrom settles the i-th item in order, and with it those after it that
// continue it in the same run. It returns the index of the item after them.
func (s *settling) settleFrom(i int) int {
	at := visit(s.order, i)
	item := &s.batch[at]
	if item.Outcome < Ack || item.Outcome > Release || !s.edit.holds(item.Ref) {
		return i + 1
	}
	s.Held[at] = true
	to := item.Sequence
	for i++; i < len(s.batch); i++ {
		at = visit(s.order, i)
		after := &s.batch[at]
		if after.Sequence == to {
			continue // named twice: the first has it
		}
		if after.Sequence != to+1 || to == s.edit.cur.To || !after.like(item) {
			break
		}
		s.Held[at] = true
		to++
	}
	s.apply(item, to)
	return i
}

// like reports whether two settlements differ in nothing but the sequence.
func (a *Settlement) like(b *Settlement) bool {
	return a.Claim == b.Claim && a.Outcome == b.Outcome && a.NotBefore == b.NotBefore && a.Reason == b.Reason
}

// apply settles the editor's run up to and including to.
func (s *settling) apply(item *Settlement, to int64) {
	run := &s.edit.cur
	spent := s.maxAttempts > 0 && run.Attempt >= s.maxAttempts
	switch {
	case item.Outcome == Ack:
		s.edit.drop(to)
	case item.Outcome == Release:
		s.edit.turn(to, Run{State: Available, Attempt: run.Attempt - 1, Reason: run.Reason})
	case item.Outcome == Nack && !spent:
		s.edit.turn(to, Run{State: Available, Attempt: run.Attempt, At: item.NotBefore, Reason: item.Reason})
	default:
		s.Dead = appendDead(s.Dead, Dead{From: run.From, To: to, Attempts: run.Attempt, Reason: item.Reason})
		s.edit.drop(to)
	}
}

// holds moves to the delivery named, and reports whether it is held.
func (e *editor) holds(ref Ref) bool {
	return e.seek(ref.Sequence) && e.cur.State == Leased && e.cur.Claim == ref.Claim
}
