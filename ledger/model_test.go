package ledger_test

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rheo-go/rheo/ledger"
)

// A model is what a ledger means, at its plainest: an entry for every open
// sequence, changed one at a time.
type model struct {
	cursor int64
	open   map[int64]entry
}

// An entry is a Run without its bounds.
type entry ledger.Run

func newModel(cursor int64) *model {
	return &model{cursor: max(cursor, 0), open: map[int64]entry{}}
}

func (m *model) runs() []ledger.Run {
	var runs []ledger.Run
	for s := int64(1); s <= m.cursor; s++ {
		e, ok := m.open[s]
		if !ok {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].To == s-1 {
			last := entry(runs[n-1])
			last.From, last.To = 0, 0
			if last == e {
				runs[n-1].To = s
				continue
			}
		}
		run := ledger.Run(e)
		run.From, run.To = s, s
		runs = append(runs, run)
	}
	return runs
}

func (m *model) frontier() int64 {
	for s := int64(1); s <= m.cursor; s++ {
		if _, ok := m.open[s]; ok {
			return s - 1
		}
	}
	return m.cursor
}

func (m *model) count(now int64) (c ledger.Counts) {
	for _, e := range m.open {
		if e.State == ledger.Leased && e.At > now {
			c.InFlight++
		} else {
			c.Waiting++
		}
	}
	return c
}

func (m *model) claim(c ledger.Claim) (got ledger.Claimed) {
	if c.Max <= 0 || c.Ordered && m.count(c.Now).InFlight > 0 {
		return got
	}
	left, dead := c.Max, 0
	blocked := false
	for s := int64(1); s <= m.cursor && left > 0; s++ {
		e, ok := m.open[s]
		if !ok {
			continue
		}
		exhausted := c.MaxAttempts > 0 && e.Attempt >= c.MaxAttempts
		switch {
		case e.At > c.Now, exhausted && dead == ledger.MaxDeadPerClaim:
			blocked = true
		case exhausted:
			dead++
			delete(m.open, s)
			got.Dead = deadAfter(got.Dead, s, e.Attempt, cmp.Or(e.Reason, ledger.ReasonLeaseExpired))
		default:
			left--
			m.hand(c, s, e.Attempt+1, e.Reason, &got)
		}
		if blocked && c.Ordered {
			return got
		}
	}
	if c.MaxRuns > 0 && len(m.runs()) >= c.MaxRuns {
		return got
	}
	for ; left > 0 && m.cursor < c.High; left-- {
		m.cursor++
		m.hand(c, m.cursor, 1, "", &got)
	}
	return got
}

func (m *model) hand(c ledger.Claim, s int64, attempt int, reason string, got *ledger.Claimed) {
	m.lease(c.ID, c.Consumer, c.Expires, s, attempt, reason)
	if n := len(got.Spans); n > 0 {
		last := &got.Spans[n-1]
		if last.To == s-1 && last.Attempt == attempt && last.Reason == reason {
			last.To = s
			return
		}
	}
	got.Spans = append(got.Spans, ledger.Span{From: s, To: s, Attempt: attempt, Reason: reason})
}

func (m *model) lease(claim uint64, consumer string, expires, s int64, attempt int, reason string) {
	m.open[s] = entry{
		State: ledger.Leased, Attempt: attempt, At: expires, Claim: claim, Consumer: consumer, Reason: reason,
	}
}

func deadAfter(list []ledger.Dead, s int64, attempts int, reason string) []ledger.Dead {
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.To == s-1 && last.Attempts == attempts && last.Reason == reason {
			last.To = s
			return list
		}
	}
	return append(list, ledger.Dead{From: s, To: s, Attempts: attempts, Reason: reason})
}

func (m *model) holds(r ledger.Ref) bool {
	e, ok := m.open[r.Sequence]
	return ok && e.State == ledger.Leased && e.Claim == r.Claim
}

func (m *model) renew(refs []ledger.Ref, expires int64) []bool {
	held := make([]bool, len(refs))
	for i, r := range refs {
		if held[i] = m.holds(r); held[i] {
			e := m.open[r.Sequence]
			e.At = expires
			m.open[r.Sequence] = e
		}
	}
	return held
}

func (m *model) settle(batch []ledger.Settlement, maxAttempts int) ledger.Settled {
	got := ledger.Settled{Held: make([]bool, len(batch))}
	type death struct {
		s        int64
		attempts int
		reason   string
	}
	var deaths []death
	for i, item := range batch {
		if !m.holds(item.Ref) || item.Outcome < ledger.Ack || item.Outcome > ledger.Release {
			continue
		}
		got.Held[i] = true
		s, e := item.Sequence, m.open[item.Sequence]
		delete(m.open, s)
		switch item.Outcome {
		case ledger.Ack:
		case ledger.Nack:
			if maxAttempts > 0 && e.Attempt >= maxAttempts {
				deaths = append(deaths, death{s, e.Attempt, item.Reason})
			} else {
				m.open[s] = entry{State: ledger.Available, Attempt: e.Attempt, At: item.NotBefore, Reason: item.Reason}
			}
		case ledger.Reject:
			deaths = append(deaths, death{s, e.Attempt, item.Reason})
		case ledger.Release:
			m.open[s] = entry{State: ledger.Available, Attempt: e.Attempt - 1, Reason: e.Reason}
		}
	}
	slices.SortFunc(deaths, func(a, b death) int { return cmp.Compare(a.s, b.s) })
	for _, d := range deaths {
		got.Dead = deadAfter(got.Dead, d.s, d.attempts, d.reason)
	}
	return got
}

func (m *model) reopen(sequences ...int64) {
	for _, s := range sequences {
		if s >= 1 && s <= m.cursor {
			m.open[s] = entry{State: ledger.Available}
		}
	}
}

// reopenEach reports whether it was within the bound.
func (m *model) reopenEach(sequences []int64, maxRuns int) bool {
	after := &model{cursor: m.cursor, open: maps.Clone(m.open)}
	after.reopen(sequences...)
	if n := len(after.runs()); maxRuns > 0 && n > maxRuns && n > len(m.runs()) {
		return false
	}
	m.open = after.open
	return true
}

func (m *model) expireAll(now int64) {
	for s, e := range m.open {
		if e.State == ledger.Leased && e.At > now {
			e.At = now
			m.open[s] = e
		}
	}
}

func (m *model) restore(claim uint64, consumer string, expires int64, spans []ledger.Span) {
	for _, span := range spans {
		for s := span.From; s <= span.To; s++ {
			m.lease(claim, consumer, expires, s, span.Attempt, span.Reason)
			m.cursor = max(m.cursor, s)
		}
	}
}
