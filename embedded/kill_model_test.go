package embedded_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
)

// killModel is what the parent of the load knows from its reports, and holds the
// store to.
type killModel struct {
	writers  [killWriters]struct{ n, count int } // the last append tried
	batches  []killBatch                         // tried, in order of the writer
	log      map[string]place                    // what was read
	read     [killPartitions]int64               // up to which sequence
	groups   map[string]*killGroup
	leases   int
	settled  int
	frontier map[string][]int64
}

type place struct {
	partition int
	sequence  int64
}

type killBatch struct {
	writer, n, count int
	confirmed        bool
}

type killGroup struct {
	handed map[place]int    // how often each event was
	done   map[place]string // settled for good, confirmed
	begun  map[place]bool   // settling was begun
}

func newKillModel() *killModel {
	m := &killModel{log: make(map[string]place), groups: make(map[string]*killGroup), frontier: make(map[string][]int64)}
	for _, g := range []string{"a", "o", "r"} {
		m.groups[g] = &killGroup{handed: make(map[place]int), done: make(map[place]string), begun: make(map[place]bool)}
		m.frontier[g] = make([]int64, killPartitions)
	}
	return m
}

// take takes a report in, and says what in it must not be.
func (m *killModel) take(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "ready":
		return nil
	case "try", "ok":
		return m.takeAppend(line, words[0] == "ok")
	}
	var verb, group, last string
	var at place
	if _, err := fmt.Sscan(line, &verb, &group, &at.partition, &at.sequence, &last); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	g := m.groups[group]
	if group == "r" {
		return nil // replays make anything possible
	}
	switch verb {
	case "lease":
		m.leases++
		return g.lease(line, at, last)
	case "settle":
		g.begun[at] = true
	case "done":
		m.settled++
		if last != "nack" {
			g.done[at] = last
		}
	}
	return nil
}

func (g *killGroup) lease(line string, at place, last string) error {
	var attempt int
	if _, err := fmt.Sscan(last, &attempt); err != nil {
		return err
	}
	if outcome := g.done[at]; outcome != "" {
		return fmt.Errorf("%q after a confirmed %s", line, outcome)
	}
	g.handed[at]++
	if attempt < g.handed[at] || attempt > killAttempts {
		return fmt.Errorf("%q, of which %d deliveries were seen, and at most %d are allowed", line, g.handed[at], killAttempts)
	}
	return nil
}

func (m *killModel) takeAppend(line string, confirmed bool) error {
	var verb string
	var b killBatch
	if _, err := fmt.Sscan(line, &verb, &b.writer, &b.n, &b.count); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	w := &m.writers[b.writer]
	if !confirmed {
		w.n, w.count = b.n, b.count
		m.batches = append(m.batches, b)
		return nil
	}
	w.n, w.count = b.n+b.count, 0
	for i := len(m.batches) - 1; ; i-- {
		if m.batches[i].writer == b.writer {
			m.batches[i].confirmed = true
			return nil
		}
	}
}

// verify holds an open store to what was reported.
func (m *killModel) verify(t *testing.T, in *rheo.Instance) {
	t.Helper()
	for p := range killPartitions {
		m.readLog(t, in, p)
	}
	var undecided []killBatch
	for _, b := range m.batches {
		there := 0
		for i := range b.count {
			if _, ok := m.log[eventOf(b.writer, b.n+i).ID]; ok {
				there++
			}
		}
		if there != b.count && (b.confirmed || there > 0) {
			t.Fatalf("%d of the %d events of %+v are in the log", there, b.count, b)
		}
		if there != b.count {
			undecided = append(undecided, b)
		}
	}
	m.batches = undecided
	for name, g := range m.groups {
		m.verifyGroup(t, in, name, g)
	}
}

// readLog reads what was not read before: each event once, in order, as it was
// written.
func (m *killModel) readLog(t *testing.T, in *rheo.Instance, p int) {
	t.Helper()
	for {
		events, err := in.Read(t.Context(), "s", p, m.read[p], 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return
		}
		for i := range events {
			e := &events[i]
			at := place{p, m.read[p] + 1}
			if before, twice := m.log[e.ID]; twice || e.Sequence != at.sequence {
				t.Fatalf("event %q is at %+v, expected at %+v; %t, it was at %+v", e.ID, e.Sequence, at, twice, before)
			}
			if e.Type != poisonType {
				var hash uint32
				var writer, n int
				if _, err := fmt.Sscanf(e.ID, "%08x-%d-%d", &hash, &writer, &n); err != nil {
					t.Fatal(err)
				}
				if want := eventOf(writer, n); want.ID != e.ID || string(want.Payload) != string(e.Payload) {
					t.Fatalf("event %q holds %s", e.ID, e.Payload)
				}
			}
			m.log[e.ID] = at
			m.read[p]++
		}
	}
}

func (m *killModel) verifyGroup(t *testing.T, in *rheo.Instance, name string, g *killGroup) {
	t.Helper()
	info, err := in.GroupInfo(t.Context(), "s", name)
	if err != nil {
		t.Fatal(err)
	}
	if name == "r" {
		return
	}
	for p, i := range info.Partitions {
		if i.Frontier < m.frontier[name][p] {
			t.Fatalf("group %s, partition %d: the frontier went back from %d to %d", name, p, m.frontier[name][p], i.Frontier)
		}
		m.frontier[name][p] = i.Frontier
	}
	dead := m.deadLetters(t, in, name)
	for at, outcome := range g.done {
		if outcome == "dead" && dead[at] == 0 {
			t.Fatalf("group %s: the confirmed dead letter at %+v is not there", name, at)
		}
		if outcome == "ack" && dead[at] != 0 {
			t.Fatalf("group %s: the confirmed ack at %+v is a dead letter", name, at)
		}
	}
	if int(info.DeadLetters) != len(dead) {
		t.Fatalf("group %s has %d dead letters, and says %d", name, len(dead), info.DeadLetters)
	}
}

// deadLetters returns the attempts of each dead letter.
func (m *killModel) deadLetters(t *testing.T, in *rheo.Instance, name string) map[place]int {
	t.Helper()
	dead := make(map[place]int)
	for d, err := range in.DeadLetters(t.Context(), "s", name) {
		if err != nil {
			t.Fatal(err)
		}
		at := place{d.Partition, d.Sequence}
		if name != "r" && d.Attempts < m.groups[name].handed[at] {
			t.Fatalf("group %s: the dead letter at %+v counts %d attempts, %d were seen", name, at, d.Attempts, m.groups[name].handed[at])
		}
		if d.Event.Type == poisonType && name == "a" && d.Attempts != killAttempts {
			t.Fatalf("the poison at %+v took %d attempts, not %d", at, d.Attempts, killAttempts)
		}
		dead[at] = d.Attempts
	}
	return dead
}

// drain acks all that is left, and checks that no delivery was lost: each event was
// acked, is a dead letter, or comes now.
func (m *killModel) drain(t *testing.T, in *rheo.Instance, name string) {
	t.Helper()
	g := m.groups[name]
	came := make(map[place]bool)
	for {
		leases, err := in.Fetch(t.Context(), "s", name, rheo.FetchOptions{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(leases) == 0 {
			break
		}
		for _, l := range leases {
			at := place{l.Partition, l.Sequence}
			came[at] = true
			if name == "r" {
				continue
			}
			if err := g.lease("drained", at, fmt.Sprint(l.Attempt)); err != nil {
				t.Fatalf("group %s, %+v: %v", name, at, err)
			}
		}
		if err := in.Ack(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
	}
	lag, err := in.Lag(t.Context(), "s", name)
	if err != nil || lag.Lag != 0 {
		t.Fatalf("group %s: lag %d after all was drained (%v)", name, lag.Lag, err)
	}
	if name == "r" {
		return
	}
	dead := m.deadLetters(t, in, name)
	for p := range killPartitions {
		for sequence := int64(1); sequence <= m.read[p]; sequence++ {
			at := place{p, sequence}
			if g.done[at] == "" && !g.begun[at] && !came[at] && dead[at] == 0 {
				t.Fatalf("group %s: the event at %+v was never delivered", name, at)
			}
		}
	}
}
