package backendtest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// idAt returns the ID of an event in the log, once that has been read.
func (h *history) idAt(partition int, sequence int64) string {
	if log := h.logs[partition]; sequence <= int64(len(log)) {
		return log[sequence-1]
	}
	return ""
}

// explain looks for what cannot have been.
func (h *history) explain() {
	h.Helper()
	h.logs = make([][]string, h.partitions)
	for p := range h.partitions {
		h.logs[p] = eventIDs(h.read(p))
	}
	h.explainLog()
	for _, g := range h.groups {
		e := &explanation{history: h, story: g, events: make(map[place][]*handed)}
		for _, d := range g.handed {
			at := place{d.Partition, d.Sequence}
			e.events[at] = append(e.events[at], d)
		}
		e.explain()
	}
}

// explainLog checks that each append's result is what the log holds, and that the
// log holds nothing else and keeps the order of appends that followed each other.
func (h *history) explainLog() {
	h.Helper()
	fresh, total := 0, 0
	for i, a := range h.appends {
		for _, r := range a.results {
			equal(h.subject, "the event at an append's sequence", h.idAt(r.Partition, r.Sequence), r.ID)
			if !r.Duplicate {
				fresh++
			}
		}
		for _, b := range h.appends[:i] {
			h.appendsInOrder(a, b)
			h.appendsInOrder(b, a)
		}
	}
	for p := range h.partitions {
		total += len(h.logs[p])
	}
	equal(h.subject, "events in the log", total, fresh)
}

func (h *history) appendsInOrder(first, second appended) {
	h.Helper()
	if !first.before(second.span) {
		return
	}
	for _, x := range first.results {
		for _, y := range second.results {
			if x.Partition == y.Partition && x.Sequence >= y.Sequence && !y.Duplicate {
				h.Fatalf("%s got sequence %d, and %s, appended later, %d", x.ID, x.Sequence, y.ID, y.Sequence)
			}
		}
	}
}

type place struct {
	partition int
	sequence  int64
}

// An explanation is the search through one group's story.
type explanation struct {
	*history
	*story
	events map[place][]*handed
}

func (e *explanation) explain() {
	e.Helper()
	for at, list := range e.events {
		slices.SortFunc(list, func(a, b *handed) int {
			return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.fetch.to, b.fetch.to))
		})
		for _, d := range list {
			e.explainHolder(d, list)
			e.explainExclusive(d)
			e.explainAttempt(d, list)
		}
		if !e.replays {
			e.explainChain(list)
			e.explainOrder(at, list)
		}
	}
	e.explainEnd()
	e.explainInfos()
}

// refuted reports a contradiction, with the whole story of the event.
func (e *explanation) refuted(d *handed, what string) {
	e.Helper()
	for _, x := range e.events[place{d.Partition, d.Sequence}] {
		e.Logf("attempt %d, lease %s, until %s, fetched %v", x.Attempt, x.LeaseID, x.ExpiresAt.Format(time.TimeOnly), x.fetch)
		for _, r := range x.renewals {
			e.Logf("    renewed until %v (%v) %v", r.expires.Format(time.TimeOnly), r.err, r.span)
		}
		for _, s := range x.settles {
			e.Logf("    %v, delay %v (%v) %v", s.Outcome, s.Delay, s.err, s.span)
		}
	}
	for _, r := range e.replayCalls {
		if r.covers(d.Partition, d.Sequence) {
			e.Logf("replayed %v", r.span)
		}
	}
	e.Fatalf("group %s, event %s (%d/%d), attempt %d: %s", e.name, d.ID, d.Partition, d.Sequence, d.Attempt, what)
}

// mayBeReplayed reports whether a replay may have opened the event after one
// call's beginning and before another's end.
func (e *explanation) mayBeReplayed(d *handed, after, until int64) bool {
	return slices.ContainsFunc(e.replayCalls, func(r replayed) bool {
		return r.to > after && r.from < until && r.covers(d.Partition, d.Sequence)
	})
}

// explainHolder checks each settle and renewal of a lease: one that went through
// must have been of a lease that nobody had taken, one refused of a lease that
// somebody may have.
func (e *explanation) explainHolder(d *handed, list []*handed) {
	e.Helper()
	var done *settling
	for i := range d.settles {
		s := &d.settles[i]
		e.explainResult(d, list, s.span, s.err, done)
		if s.err == nil {
			done = s
		}
	}
	for _, r := range d.renewals {
		settled := d.settled()
		if settled != nil && !settled.before(r.span) {
			settled = nil
		}
		e.explainResult(d, list, r.span, r.err, settled)
	}
}

func (e *explanation) explainResult(d *handed, list []*handed, call span, err error, settled *settling) {
	e.Helper()
	if err != nil && !errors.Is(err, rheo.ErrStaleLease) {
		e.refuted(d, "its holder got: "+err.Error())
	}
	if err == nil {
		taken := slices.ContainsFunc(list, func(x *handed) bool { return d.fetch.before(x.fetch) && x.fetch.before(call) })
		fenced := slices.ContainsFunc(e.replayCalls, func(r replayed) bool {
			return r.covers(d.Partition, d.Sequence) && d.fetch.before(r.span) && r.before(call)
		})
		if settled != nil || taken || fenced {
			e.refuted(d, "a call with its lease went through after the lease was lost")
		}
		return
	}
	expired := !call.ended.Before(d.goodUntil(call))
	if settled == nil && !(expired && e.mayBeTaken(d, list, call)) && !e.mayBeReplayed(d, d.fetch.from, call.to) {
		e.refuted(d, "a call with its lease was refused although the lease was good")
	}
}

// mayBeTaken reports whether a fetch may have taken the event from its holder, or
// rejected it, before a call ended.
func (e *explanation) mayBeTaken(d *handed, list []*handed, call span) bool {
	if d.Attempt >= e.config.MaxAttempts {
		return slices.ContainsFunc(e.fetches, func(f span) bool {
			return f != d.fetch && f.from < call.to && f.to > d.fetch.from
		})
	}
	return slices.ContainsFunc(list, func(x *handed) bool { return x != d && x.fetch.from < call.to })
}

// surelyHeld reports whether the lease was good throughout a fetch, whatever
// moments the store chose.
func (e *explanation) surelyHeld(d *handed, during span) bool {
	s := d.settled()
	return d.fetch.before(during) && (s == nil || during.before(s.span)) &&
		during.ended.Before(d.goodUntil(during)) && !e.mayBeReplayed(d, d.fetch.from, during.to)
}

// explainExclusive checks that nobody was handed the event, or in an ordered group
// its partition, while the lease was good.
func (e *explanation) explainExclusive(d *handed) {
	e.Helper()
	for _, x := range e.handed {
		one := x.Partition == d.Partition && (x.Sequence == d.Sequence || e.config.Ordering == rheo.OrderingPartition)
		if one && x != d && e.surelyHeld(d, x.fetch) {
			e.Logf("lease %s on %d was fetched %v", x.LeaseID, x.Sequence, x.fetch)
			e.refuted(d, "while its lease was good somebody else got a lease")
		}
	}
}

// explainAttempt checks that attempts count up to their limit, and that nothing
// terminal comes again unless it was replayed.
func (e *explanation) explainAttempt(d *handed, list []*handed) {
	e.Helper()
	if d.Attempt < 1 || d.Attempt > e.config.MaxAttempts {
		e.refuted(d, "attempts have a limit")
	}
	if d.Attempt > 1 && !slices.ContainsFunc(list, func(x *handed) bool {
		return x.Attempt == d.Attempt-1 && x.fetch.from < d.fetch.to
	}) {
		e.refuted(d, "an attempt was left out")
	}
	for _, x := range list {
		end := x.terminal(e.config.MaxAttempts)
		if x != d && end != nil && end.before(d.fetch) && !e.mayBeReplayed(d, end.from, d.fetch.to) {
			e.refuted(d, "it came although it was "+end.Outcome.String()+"ed before")
		}
		if x != d && x.LeaseID == d.LeaseID {
			e.refuted(d, "its lease ID was used twice")
		}
	}
}

// explainChain goes through the deliveries of an event that was never replayed:
// each follows from how the one before ended.
func (e *explanation) explainChain(list []*handed) {
	e.Helper()
	if list[0].Attempt != 1 {
		e.refuted(list[0], "the first attempt is another")
	}
	for i, next := range list[1:] {
		d := list[i]
		want, reason, notBefore := d.Attempt+1, "", d.expiry()
		if s := d.settled(); s != nil {
			notBefore = time.Time{}
			switch {
			case d.terminal(e.config.MaxAttempts) != nil:
				e.refuted(d, "it came again although it was settled for good")
			case s.Outcome == rheo.OutcomeRelease:
				want, reason = d.Attempt, d.LastReason
			case s.Outcome == rheo.OutcomeNack:
				notBefore, reason = s.began.Add(s.Delay), s.Reason
			}
			if next.LastReason != reason {
				e.refuted(next, "its last reason is "+next.LastReason+", not "+reason)
			}
		}
		if next.Attempt != want {
			e.refuted(next, "its attempt does not follow from the one before")
		}
		if next.fetch.ended.Before(notBefore) {
			e.refuted(next, "it came too soon")
		}
	}
}

// mayBeDone reports whether the event may have been terminal before a call ended.
func (e *explanation) mayBeDone(at place, until int64) bool {
	return slices.ContainsFunc(e.events[at], func(d *handed) bool {
		if s := d.terminal(e.config.MaxAttempts); s != nil {
			return s.from < until
		}
		return d.Attempt >= e.config.MaxAttempts && d.settled() == nil && d.fetch.from < until
	})
}

// explainOrder checks that an ordered group was handed nothing before what comes
// first.
func (e *explanation) explainOrder(at place, list []*handed) {
	e.Helper()
	if e.config.Ordering != rheo.OrderingPartition {
		return
	}
	for _, d := range list {
		for earlier := int64(1); earlier < at.sequence; earlier++ {
			first := place{at.partition, earlier}
			beside := slices.ContainsFunc(e.events[first], func(x *handed) bool { return x.fetch == d.fetch })
			if !beside && !e.mayBeDone(first, d.fetch.to) {
				e.refuted(d, "it came while an event before it was open: "+e.idAt(first.partition, first.sequence))
			}
		}
	}
}
