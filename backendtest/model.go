package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// RunModel lets random operations loose on the backend. First one at a time,
// where a model of one entry per event and group knows what every call must
// return; then from several goroutines at once, where a history of all calls must
// have an explanation. The seeds are logged; [SeedVariable] fixes them, although
// goroutines still take turns as they like.
func RunModel(t *testing.T, c Config) {
	t.Helper()
	for _, m := range []struct {
		name string
		run  func(*subject)
	}{{"one at a time", modelOneAtATime}, {"concurrent", modelConcurrent}} {
		t.Run(m.name, func(t *testing.T) {
			if !c.Serial {
				t.Parallel()
			}
			s := open(t, c)
			defer s.survive()
			m.run(s)
		})
	}
}

// state is what became of a delivery.
type state int

const (
	available state = iota
	leased
	acked
	dead
)

// A delivery is one event as one group sees it, once it has been offered.
type delivery struct {
	state   state
	attempt int
	at      time.Time // available: not before; leased: expires
	reason  string    // of the last nack or reject
	unsaid  bool      // an attempt has run out since, and left no reason
	lease   *rheo.Lease
}

func (d *delivery) open() bool { return d.state == available || d.state == leased }

func (d *delivery) due(now time.Time) bool { return d.open() && !now.Before(d.at) }

func (d *delivery) inFlight(now time.Time) bool { return d.state == leased && now.Before(d.at) }

// spent reports whether the delivery's last attempt has run out: it is to be
// rejected by a fetch, not handed out.
func (d *delivery) spent(now time.Time, maxAttempts int) bool {
	return d.state == leased && d.due(now) && d.attempt >= maxAttempts
}

// A modelPart is a partition of a modelGroup.
type modelPart struct {
	start, cursor int64
	deliveries    map[int64]*delivery // of the sequences up to cursor that were offered or replayed
}

// ascending returns the open deliveries' sequences.
func (p *modelPart) ascending() []int64 {
	var open []int64
	for sequence, d := range p.deliveries {
		if d.open() {
			open = append(open, sequence)
		}
	}
	slices.Sort(open)
	return open
}

func (p *modelPart) frontier() int64 {
	if open := p.ascending(); len(open) > 0 {
		return open[0] - 1
	}
	return p.cursor
}

// A modelGroup is what a group must be like.
type modelGroup struct {
	name        string
	ordered     bool
	maxAttempts int
	parts       map[int]*modelPart
	held        []*rheo.Lease   // that were handed out, good or lost
	fetches     [][]*rheo.Lease // the same, by what handed them out
}

// A model is a stream with its groups, one call at a time.
type model struct {
	*subject
	rng    *rand.Rand
	high   map[int]int64
	groups []*modelGroup
	leases map[string]bool // every lease ID so far
}

const modelPartitions = 3

func modelOneAtATime(s *subject) {
	m := &model{subject: s, rng: s.random(), high: make(map[int]int64), leases: make(map[string]bool)}
	partitions := modelPartitions
	if !s.backend.Capabilities().Guarantees.Partitions {
		partitions = 1
	}
	s.create(partitions)
	for p := range partitions {
		m.high[p] = 0
	}
	m.appendSome()
	m.addGroup("plain", rheo.GroupConfig{MaxAttempts: 3}, partitions)
	m.addGroup("ordered", rheo.GroupConfig{MaxAttempts: 4, Ordering: rheo.OrderingPartition}, partitions)
	m.addGroup("once", rheo.GroupConfig{MaxAttempts: 1, Start: rheo.StartEnd()}, partitions)
	for range s.scaled(1200) {
		m.step()
	}
	for _, g := range m.groups {
		m.finish(g)
	}
}

func (m *model) addGroup(name string, c rheo.GroupConfig, partitions int) {
	m.Helper()
	m.group(name, c)
	g := &modelGroup{name: name, ordered: c.Ordering == rheo.OrderingPartition, maxAttempts: c.MaxAttempts, parts: make(map[int]*modelPart)}
	for p := range partitions {
		part := &modelPart{deliveries: make(map[int64]*delivery)}
		if c.Start.Kind == rheo.StartKindEnd {
			part.start, part.cursor = m.high[p], m.high[p]
		}
		g.parts[p] = part
	}
	m.groups = append(m.groups, g)
}

func (m *model) step() {
	m.Helper()
	g := m.groups[m.rng.IntN(len(m.groups))]
	switch n := m.rng.IntN(100); {
	case n < 12:
		m.appendSome()
	case n < 40:
		m.fetchSome(g, 1+m.rng.IntN(8), m.somePartitions())
	case n < 65:
		m.settleSome(g)
	case n < 73:
		m.renewSome(g)
	case n < 92:
		m.clock.Advance(time.Duration(m.rng.IntN(10)) * time.Second)
	case n < 96:
		m.replaySome(g)
	case n < 97:
		m.resetSome(g)
	}
	m.check(g)
}

func (m *model) appendSome() {
	m.Helper()
	p := m.rng.IntN(len(m.high))
	n := 1 + m.rng.IntN(6)
	m.fill(p, n)
	m.high[p] += int64(n)
}

// somePartitions returns some partitions or, as often as not, none, for all.
func (m *model) somePartitions() []int {
	if m.rng.IntN(2) == 0 {
		return nil
	}
	return m.rng.Perm(len(m.high))[:1+m.rng.IntN(len(m.high))]
}

func (m *model) partitions(named []int) []int {
	if len(named) > 0 {
		return named
	}
	var all []int
	for p := range len(m.high) {
		all = append(all, p)
	}
	return all
}

// pick returns some leases that were handed out, the later the likelier.
func (m *model) pick(g *modelGroup) []*rheo.Lease {
	var picked []*rheo.Lease
	for range m.rng.IntN(6) {
		if len(g.held) > 0 {
			back := min(m.rng.IntN(20), m.rng.IntN(len(g.held)))
			picked = append(picked, g.held[len(g.held)-1-back])
		}
	}
	return picked
}

// pickRow returns all that one fetch handed out, or some in a row, the later the likelier.
func (m *model) pickRow(g *modelGroup) []*rheo.Lease {
	back := min(m.rng.IntN(8), m.rng.IntN(len(g.fetches)))
	row := g.fetches[len(g.fetches)-1-back]
	if m.rng.IntN(3) == 0 {
		row = row[:1+m.rng.IntN(len(row))]
	}
	if m.rng.IntN(4) == 0 {
		row = row[m.rng.IntN(len(row)):]
	}
	return row
}

// holder returns the delivery that the lease is good for, or nil.
func (g *modelGroup) holder(l *rheo.Lease) *delivery {
	d := g.parts[l.Partition].deliveries[l.Sequence]
	if d == nil || d.state != leased || d.lease != l {
		return nil
	}
	return d
}

func (m *model) settleSome(g *modelGroup) {
	m.Helper()
	var batch []rheo.Settlement
	outcomes := []rheo.Outcome{1, 1, 1, 1, 2, 2, 3, 4}
	leases := m.pick(g)
	if len(g.fetches) > 0 && m.rng.IntN(2) == 0 {
		leases, outcomes = m.pickRow(g), []rheo.Outcome{outcomes[m.rng.IntN(len(outcomes))]}
	}
	for i, l := range leases {
		outcome := outcomes[m.rng.IntN(len(outcomes))]
		delay := time.Duration(m.rng.IntN(2)*m.rng.IntN(20)) * time.Second
		if delay > 0 {
			delay += time.Second / 4
		}
		batch = append(batch, rheo.Settlement{Lease: l, Outcome: outcome, Delay: delay, Reason: fmt.Sprint("reason ", m.rng.IntN(10), i)})
	}
	if len(batch) == 0 {
		return
	}
	for i, err := range m.settle(batch...) {
		d := g.holder(batch[i].Lease)
		if d == nil {
			m.fails("settling a lost lease", err, rheo.ErrStaleLease)
			continue
		}
		if err != nil {
			m.Fatalf("group %s: %v of %s, whose lease is good: %v", g.name, batch[i].Outcome, batch[i].Lease.ID, err)
		}
		d.settle(batch[i], m.clock.Now(), g.maxAttempts)
	}
}

func (d *delivery) settle(s rheo.Settlement, now time.Time, maxAttempts int) {
	d.at, d.lease = now, nil
	switch {
	case s.Outcome == rheo.OutcomeAck:
		d.state = acked
	case s.Outcome == rheo.OutcomeRelease:
		d.state = available
		d.attempt--
	case s.Outcome == rheo.OutcomeNack && d.attempt < maxAttempts:
		d.state, d.at, d.reason, d.unsaid = available, now.Add(s.Delay), s.Reason, false
	default:
		d.state, d.reason, d.unsaid = dead, s.Reason, false
	}
}

func (m *model) renewSome(g *modelGroup) {
	m.Helper()
	leases := m.pick(g)
	if len(leases) == 0 {
		return
	}
	extend := time.Duration(1+m.rng.IntN(40))*time.Second + time.Second/2
	for i, r := range m.renew(extend, leases...) {
		d := g.holder(leases[i])
		if d == nil {
			m.fails("renewing a lost lease", r.Err, rheo.ErrStaleLease)
			continue
		}
		m.noError(r.Err)
		d.at = m.clock.Now().Add(extend)
		m.near("new expiry", r.ExpiresAt, d.at)
	}
}

// replaySome replays from a sequence, or scattered events by ID or query.
func (m *model) replaySome(g *modelGroup) {
	m.Helper()
	if !m.backend.Capabilities().Guarantees.Replay {
		return
	}
	selection := rheo.ReplaySelection{Partitions: m.somePartitions()}
	var chosen func(partition int, sequence int64) bool
	if from := int64(1 + m.rng.IntN(60)); m.rng.IntN(2) == 0 {
		selection.FromSequence = from
		chosen = func(_ int, sequence int64) bool { return sequence >= from }
	} else {
		ids := m.someIDs()
		chosen = func(p int, sequence int64) bool { return slices.Contains(ids, name(p, sequence)) }
		if m.rng.IntN(2) == 0 {
			selection.IDs = ids
		} else {
			selection.Query = &rheo.Query{Where: []rheo.Condition{rheo.Where("id", rheo.OpIn, ids)}}
		}
	}
	var want int64
	for _, p := range m.partitions(selection.Partitions) {
		part := g.parts[p]
		for sequence := int64(1); sequence <= part.cursor; sequence++ {
			if chosen(p, sequence) {
				part.deliveries[sequence] = &delivery{at: m.clock.Now()}
				want++
			}
		}
	}
	equal(m.subject, fmt.Sprintf("deliveries opened in group %s by %+v", g.name, selection), m.replay(g.name, selection), want)
}

func (m *model) someIDs() []string {
	ids := []string{}
	for range m.rng.IntN(8) {
		p := m.rng.IntN(len(m.high))
		if m.high[p] > 0 {
			ids = append(ids, name(p, 1+m.rng.Int64N(m.high[p])))
		}
	}
	return ids
}

func (m *model) resetSome(g *modelGroup) {
	m.Helper()
	if !m.backend.Capabilities().Guarantees.Replay {
		return
	}
	partitions := m.somePartitions()
	m.reset(g.name, rheo.ResetOptions{Partitions: partitions})
	for _, p := range m.partitions(partitions) {
		part := g.parts[p]
		part.cursor, part.deliveries = part.start, make(map[int64]*delivery)
	}
}
