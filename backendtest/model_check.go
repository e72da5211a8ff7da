package backendtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// check compares all that the group tells of itself.
func (m *model) check(g *modelGroup) {
	m.Helper()
	info := m.info(g.name)
	now := m.clock.Now()
	var want []string
	for p := range len(m.high) {
		part, got := g.parts[p], info.Partitions[p]
		var inFlight, waiting, spent int64
		for sequence, d := range part.deliveries {
			switch {
			case d.state == dead:
				want = append(want, fmt.Sprintf("%d %09d %d", p, sequence, d.attempt))
			case d.spent(now, g.maxAttempts):
				spent++
			case d.inFlight(now):
				inFlight++
			case d.open():
				waiting++
			}
		}
		frontier := part.frontier()
		if w := got.Waiting; w != waiting && w != waiting+spent { // whether it waits or not may be argued
			m.Fatalf("group %s, partition %d: %d are waiting, want %d", g.name, p, w, waiting)
		}
		got.Waiting, got.OldestUnacked = waiting, 0
		equal(m.subject, "group "+g.name, got, rheo.PartitionInfo{
			Partition: p, Cursor: part.cursor, Frontier: frontier, HighWatermark: m.high[p], Lag: m.high[p] - frontier,
			InFlight: inFlight, Waiting: waiting,
		})
	}
	if m.rng.IntN(8) > 0 {
		return
	}
	var letters []string
	for _, d := range m.deadLetters(g.name) {
		letters = append(letters, fmt.Sprintf("%d %09d %d", d.Partition, d.Sequence, d.Attempts))
		was := g.parts[d.Partition].deliveries[d.Sequence]
		if was != nil && !was.unsaid && was.reason != d.Reason || d.Reason == "" {
			m.Fatalf("group %s: the dead letter of %s has the reason %q", g.name, d.EventID, d.Reason)
		}
	}
	equalList(m.subject, "dead letters of group "+g.name, letters, sorted(want))
}

// finish acks whatever is still to come, until nothing is.
func (m *model) finish(g *modelGroup) {
	m.Helper()
	for range 100 {
		m.clock.Advance(time.Minute)
		for m.fetchSome(g, 100, nil) > 0 {
			for _, l := range g.held {
				if d := g.holder(l); d != nil {
					m.ack(l)
					d.settle(rheo.Settlement{Outcome: rheo.OutcomeAck}, m.clock.Now(), g.maxAttempts)
				}
			}
			m.check(g)
		}
		if m.lag(g.name) == 0 {
			return
		}
	}
	m.Fatalf("group %s: the lag is still %d: %s", g.name, m.lag(g.name), strings.TrimSpace(fmt.Sprintf("%+v", m.info(g.name))))
}
