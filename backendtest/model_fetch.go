package backendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// candidates returns what a fetch may hand out of a partition, in the order in
// which it must.
func (m *model) candidates(g *modelGroup, p int) []int64 {
	now, part := m.clock.Now(), g.parts[p]
	open := part.ascending()
	if g.ordered && slices.ContainsFunc(open, func(sequence int64) bool { return part.deliveries[sequence].inFlight(now) }) {
		return nil
	}
	var list []int64
	for _, sequence := range open {
		d := part.deliveries[sequence]
		if g.ordered && !d.due(now) { // it holds what lies behind it
			return list
		}
		if d.due(now) && !d.spent(now, g.maxAttempts) {
			list = append(list, sequence)
		}
	}
	for sequence := part.cursor + 1; sequence <= m.high[p]; sequence++ {
		list = append(list, sequence)
	}
	return list
}

// fetchSome fetches and checks that what came is what had to come first.
func (m *model) fetchSome(g *modelGroup, n int, partitions []int) int {
	m.Helper()
	d := time.Duration(5+m.rng.IntN(40))*time.Second + time.Second/2 // never equal to a moment of the clock
	want := make(map[int][]int64)
	for _, p := range m.partitions(partitions) {
		if list := m.candidates(g, p); len(list) > 0 {
			want[p] = list
		}
	}
	got := m.fetchWith(g.name, rheo.FetchOptions{Max: n, LeaseDuration: d, Partitions: partitions})
	if len(got) == 0 && len(want) > 0 {
		m.Fatalf("group %s: a fetch got nothing, although these are due: %v", g.name, want)
	}
	taken := make(map[int]int)
	for _, l := range got {
		at := taken[l.Partition]
		if at >= len(want[l.Partition]) || want[l.Partition][at] != l.Sequence {
			m.Fatalf("group %s: a fetch got %v of partition %d, due are %v", g.name, sequencesOf(got), l.Partition, want[l.Partition])
		}
		taken[l.Partition]++
		m.lease(g, l, d)
	}
	if len(got) > 0 {
		g.fetches = append(g.fetches, got)
	}
	m.bury(g, partitions, !g.ordered && len(got) < n)
	return len(got)
}

// lease notes a lease, and checks it against what is known of the delivery.
func (m *model) lease(g *modelGroup, l *rheo.Lease, d time.Duration) {
	m.Helper()
	what := fmt.Sprintf("group %s, event %s: ", g.name, l.ID)
	part := g.parts[l.Partition]
	was := part.deliveries[l.Sequence]
	if was == nil {
		was = &delivery{}
		part.deliveries[l.Sequence] = was
	}
	part.cursor = max(part.cursor, l.Sequence)
	was.unsaid = was.unsaid || was.state == leased
	equal(m.subject, what+"ID", l.ID, name(l.Partition, l.Sequence))
	equal(m.subject, what+"attempt", l.Attempt, was.attempt+1)
	if l.LastReason != was.reason && (!was.unsaid || l.LastReason != "") {
		m.Fatalf("%sthe last reason is %q, want %q", what, l.LastReason, was.reason)
	}
	equal(m.subject, what+"lease ID used before", m.leases[l.LeaseID], false)
	m.leases[l.LeaseID] = true
	m.near(what+"expiry", l.ExpiresAt, m.clock.Now().Add(d))
	was.state, was.attempt, was.at, was.lease = leased, l.Attempt, m.clock.Now().Add(d), l
	g.held = append(g.held, l)
}

// bury notes which deliveries, whose last attempt had run out, a fetch rejected.
// If it had time for all of them it must have.
func (m *model) bury(g *modelGroup, partitions []int, all bool) {
	m.Helper()
	letters := make(map[string]bool)
	for _, d := range m.deadLetters(g.name) {
		letters[d.EventID] = true
	}
	for _, p := range m.partitions(partitions) {
		for _, sequence := range g.parts[p].ascending() {
			d := g.parts[p].deliveries[sequence]
			if !d.spent(m.clock.Now(), g.maxAttempts) {
				continue
			}
			if letters[name(p, sequence)] {
				d.state, d.unsaid = dead, true
			} else if all {
				m.Fatalf("group %s: event %s has used up its attempts, but a fetch did not reject it", g.name, name(p, sequence))
			}
		}
	}
}
