package backendtest

import (
	"slices"

	"github.com/rheo-go/rheo"
)

// explainEnd checks what is left when all is drained: every event was acked or is
// a dead letter, and which of the two follows from its last delivery.
func (e *explanation) explainEnd() {
	e.Helper()
	letters := make(map[place]rheo.DeadLetter)
	for _, d := range e.deadLetters(e.name) {
		letters[place{d.Partition, d.Sequence}] = d
	}
	for _, p := range e.config.Partitions {
		for sequence := int64(1); sequence <= int64(len(e.logs[p])); sequence++ {
			at := place{p, sequence}
			list := e.events[at]
			if len(list) == 0 {
				e.Fatalf("group %s: event %s was never handed out", e.name, e.idAt(p, sequence))
			}
			letter, isDead := letters[at]
			last := list[len(list)-1]
			if e.replays {
				isAcked := slices.ContainsFunc(list, func(d *handed) bool { s := d.settled(); return s != nil && s.Outcome == rheo.OutcomeAck })
				if !isAcked && !isDead {
					e.refuted(last, "it was neither acked nor rejected in the end")
				}
				continue
			}
			e.explainLast(last, letter, isDead)
		}
	}
}

func (e *explanation) explainLast(last *handed, letter rheo.DeadLetter, isDead bool) {
	e.Helper()
	end := last.terminal(e.config.MaxAttempts)
	switch {
	case end == nil && last.settled() != nil:
		e.refuted(last, "it was given back and never came again")
	case end == nil && last.Attempt < e.config.MaxAttempts:
		e.refuted(last, "its lease ran out and it never came again")
	case end != nil && end.Outcome == rheo.OutcomeAck && isDead:
		e.refuted(last, "it was acked but is a dead letter")
	case (end == nil || end.Outcome != rheo.OutcomeAck) && !isDead:
		e.refuted(last, "it was rejected but is no dead letter")
	case isDead && letter.Attempts != last.Attempt:
		e.refuted(last, "its dead letter counts another number of attempts")
	case isDead && end != nil && letter.Reason != end.Reason:
		e.refuted(last, "its dead letter has another reason: "+letter.Reason)
	}
}

// explainInfos checks what the group told of itself meanwhile: nothing goes back,
// but the frontier when there is a replay, and the frontier has below it what is
// terminal and nothing else.
func (e *explanation) explainInfos() {
	e.Helper()
	for i, a := range e.infos {
		for at, p := range a.partitions {
			if p.Lag != p.HighWatermark-p.Frontier || p.Frontier > p.Cursor || p.Cursor > p.HighWatermark {
				e.Fatalf("group %s: it tells %+v of itself", e.name, p)
			}
			for _, b := range e.infos[:i] {
				e.explainStep(a, b, at)
				e.explainStep(b, a, at)
			}
			if !e.replays {
				e.explainFrontier(a, p)
			}
		}
	}
}

func (e *explanation) explainStep(first, second observed, at int) {
	e.Helper()
	if !first.before(second.span) {
		return
	}
	p, q := first.partitions[at], second.partitions[at]
	replayed := slices.ContainsFunc(e.replayCalls, func(r replayed) bool { return r.to > first.from && r.from < second.to })
	if q.HighWatermark < p.HighWatermark || q.Cursor < p.Cursor || !replayed && q.Frontier < p.Frontier {
		e.Fatalf("group %s: it went back from %+v to %+v", e.name, p, q)
	}
}

func (e *explanation) explainFrontier(o observed, p rheo.PartitionInfo) {
	e.Helper()
	for sequence := int64(1); sequence <= p.Frontier; sequence++ {
		if at := (place{p.Partition, sequence}); !e.mayBeDone(at, o.to) {
			e.Fatalf("group %s: the frontier of partition %d was told to be at %d when %d was open (%v)", e.name, p.Partition, p.Frontier, sequence, o.span)
		}
	}
	for _, d := range e.events[place{p.Partition, p.Frontier + 1}] {
		if s := d.terminal(e.config.MaxAttempts); s != nil && s.before(o.span) {
			e.refuted(d, "the frontier stood before it although it was done")
		}
	}
}
