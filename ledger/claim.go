package ledger

import "math"

// MaxDeadPerClaim is how many sequences one Claim rejects at most, so that the
// dead letters that a backend files with it stay a bounded write. What is left
// over is not handed out; the next Claim goes on with it.
const MaxDeadPerClaim = 1000

// ReasonLeaseExpired is the reason of a [Dead] whose attempts were used up and
// left no reason of their own.
const ReasonLeaseExpired = "lease expired on the last attempt"

// maxAttempt is where attempts stop counting.
const maxAttempt = math.MaxInt32

// A Claim is what a fetch asks of the ledger.
type Claim struct {
	ID       uint64 // the fencing token: never used before in this ledger
	Consumer string
	Now      int64 // what is due is judged by it
	Expires  int64 // of the leases given
	Max      int   // sequences to hand out at most; below 1, Claim does nothing
	High     int64 // the high watermark: the last sequence in the partition

	// MaxAttempts is how often a delivery is handed out in all. Below 1 there
	// is no bound.
	MaxAttempts int

	// MaxRuns holds back new events while the ledger has that many runs or
	// more; redeliveries go on, and so the holes close. Below 1 there is no
	// bound.
	MaxRuns int

	// Ordered delivers the partition in order, one batch in flight at a time.
	// While any lease is unexpired, Claim does nothing. Otherwise it takes open
	// deliveries from the lowest on, and stops at the first that is not due: it
	// holds back all that lies behind it, new events too. Those that have used
	// up their attempts are rejected on the way.
	Ordered bool
}

// A Span is a range of sequences handed out alike.
type Span struct {
	From, To int64 // both included
	Attempt  int   // from 1
	Reason   string
}

// Len returns the number of sequences in the span.
func (s Span) Len() int { return int(s.To - s.From + 1) }

// Dead is a range of sequences rejected alike.
type Dead struct {
	From, To int64 // both included
	Attempts int
	Reason   string
}

// Claimed is what a Claim handed out and what it rejected, each ascending.
// Neighbours that are alike are one entry.
type Claimed struct {
	Spans []Span
	Dead  []Dead
}

// Claim hands out at most c.Max sequences: first those that are due again, the
// lowest first, and then new events. Due are available deliveries whose time
// has come, and leases that expired. Those that have used up their attempts
// are not handed out but rejected, up to [MaxDeadPerClaim], and reported with
// their own reason or [ReasonLeaseExpired].
func (l *Ledger) Claim(c Claim) Claimed {
	f := fetch{Claim: c, left: int64(c.Max), deadLeft: MaxDeadPerClaim}
	if f.left <= 0 || c.Ordered && l.runs.busy(c.Now) {
		return Claimed{}
	}
	if f.redeliver(&l.runs) && f.left > 0 {
		f.offer(l)
	}
	return f.Claimed
}

// A fetch is a claim under way.
type fetch struct {
	Claim
	left     int64 // sequences that may still be handed out
	deadLeft int64 // sequences that may still be rejected
	Claimed
}

// redeliver hands out what is due, and reports whether new events may follow.
func (f *fetch) redeliver(runs *runList) bool {
	if runs.due > f.Now {
		return !f.Ordered || runs.n == 0
	}
	e := runs.edit()
	newMayFollow := true
	if f.Ordered {
		newMayFollow = f.takeInOrder(&e)
	} else {
		f.takeDue(&e)
	}
	e.close()
	runs.tightenDue()
	return newMayFollow
}

func (f *fetch) takeDue(e *editor) {
	for f.left > 0 && e.nextDue(f.Now) {
		if !f.take(e) {
			e.step()
		}
	}
}

// takeInOrder reports whether it got to the end of the open runs.
func (f *fetch) takeInOrder(e *editor) bool {
	for e.next() {
		if f.left == 0 || e.cur.At > f.Now || !f.take(e) {
			return false
		}
	}
	return true
}

// take hands out or rejects the editor's run, or the first part of it. It
// returns false if the run should be rejected but no more may be.
func (f *fetch) take(e *editor) bool {
	run := &e.cur
	if f.MaxAttempts > 0 && run.Attempt >= f.MaxAttempts {
		return f.reject(e)
	}
	to := run.From + min(run.len(), f.left) - 1
	span := Span{From: run.From, To: to, Attempt: min(run.Attempt+1, maxAttempt), Reason: run.Reason}
	e.turn(to, f.lease(span))
	f.hand(span)
	return true
}

func (f *fetch) reject(e *editor) bool {
	if f.deadLeft == 0 {
		return false
	}
	run := &e.cur
	dead := Dead{From: run.From, Attempts: run.Attempt, Reason: run.Reason}
	dead.To = run.From + min(run.len(), f.deadLeft) - 1
	if dead.Reason == "" {
		dead.Reason = ReasonLeaseExpired
	}
	f.deadLeft -= dead.To - dead.From + 1
	e.drop(dead.To)
	f.Dead = appendDead(f.Dead, dead)
	return true
}

// offer hands out new events.
func (f *fetch) offer(l *Ledger) {
	if f.High <= l.cursor || f.MaxRuns > 0 && l.runs.n >= f.MaxRuns {
		return
	}
	to := l.cursor + min(f.High-l.cursor, f.left)
	span := Span{From: l.cursor + 1, To: to, Attempt: 1}
	l.cursor = to
	run := f.lease(span)
	l.runs.push(&run)
	f.hand(span)
}

// lease returns the run of a span that is handed out.
func (f *fetch) lease(s Span) Run {
	return leased(f.ID, f.Consumer, f.Expires, s)
}

func leased(claim uint64, consumer string, expires int64, s Span) Run {
	return Run{
		From: s.From, To: s.To,
		State: Leased, Attempt: s.Attempt, At: expires,
		Claim: claim, Consumer: consumer, Reason: s.Reason,
	}
}

// hand adds a span to the result.
func (f *fetch) hand(s Span) {
	f.left -= s.To - s.From + 1
	if n := len(f.Spans); n > 0 {
		last := &f.Spans[n-1]
		if last.To == s.From-1 && last.Attempt == s.Attempt && last.Reason == s.Reason {
			last.To = s.To
			return
		}
	}
	f.Spans = append(f.Spans, s)
}

func appendDead(list []Dead, d Dead) []Dead {
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.To == d.From-1 && last.Attempts == d.Attempts && last.Reason == d.Reason {
			last.To = d.To
			return list
		}
	}
	return append(list, d)
}
