package backendtest

import (
	"fmt"
	"slices"

	"github.com/rheo-go/rheo"
)

// A loss ends some of the leases of a batch on the events 1 to 8.
type loss struct {
	name string
	lost []int64
	// end does it, and returns the leases that others hold then.
	end func(s *subject, group string, batch []*rheo.Lease) []*rheo.Lease
}

func losses() []loss {
	all := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	acks := func(from, to int) func(*subject, string, []*rheo.Lease) []*rheo.Lease {
		return func(s *subject, _ string, batch []*rheo.Lease) []*rheo.Lease {
			s.Helper()
			s.ack(batch[from-1 : to]...)
			return nil
		}
	}
	return []loss{
		{"nothing", nil, func(*subject, string, []*rheo.Lease) []*rheo.Lease { return nil }},
		{"a renewal", nil, func(s *subject, _ string, batch []*rheo.Lease) []*rheo.Lease {
			s.renew(2*lease, batch...)
			return nil
		}},
		{"their end", nil, func(s *subject, _ string, _ []*rheo.Lease) []*rheo.Lease { s.expire(); return nil }},
		{"a fetch of all", all, func(s *subject, g string, _ []*rheo.Lease) []*rheo.Lease {
			s.expire()
			return s.take(g, all...)
		}},
		{"a fetch of some", []int64{1, 2, 3}, func(s *subject, g string, _ []*rheo.Lease) []*rheo.Lease {
			s.expire()
			return s.take(g, 1, 2, 3)
		}},
		{"an ack of the first", []int64{1, 2}, acks(1, 2)},
		{"an ack within", []int64{4, 5}, acks(4, 5)},
		{"an ack of the last", []int64{8}, acks(8, 8)},
		{"a rejection", []int64{3, 4}, func(s *subject, _ string, batch []*rheo.Lease) []*rheo.Lease {
			s.reject("settled", batch[2:4]...)
			return nil
		}},
		{"a release and a fetch", []int64{1, 2, 3}, func(s *subject, g string, batch []*rheo.Lease) []*rheo.Lease {
			s.release(batch[:3]...)
			return s.take(g, 1, 2, 3)
		}},
		{"a nack and a fetch", []int64{6, 7}, func(s *subject, g string, batch []*rheo.Lease) []*rheo.Lease {
			s.nack("again", 0, batch[5:7]...)
			return s.take(g, 6, 7)
		}},
	}
}

// replays are the losses by replay and reset.
func replays() []loss {
	all := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	return []loss{
		{"a replay", []int64{5, 6, 7, 8}, func(s *subject, g string, _ []*rheo.Lease) []*rheo.Lease {
			s.replay(g, rheo.ReplaySelection{FromSequence: 5})
			return s.take(g, 5, 6, 7, 8)
		}},
		{"a replay of some", []int64{3, 6}, func(s *subject, g string, _ []*rheo.Lease) []*rheo.Lease {
			s.replay(g, rheo.ReplaySelection{IDs: []string{name(0, 3), name(0, 6)}})
			return s.take(g, 3, 6)
		}},
		{"a reset", all, func(s *subject, g string, _ []*rheo.Lease) []*rheo.Lease {
			s.reset(g, rheo.ResetOptions{})
			return s.take(g, all...)
		}},
	}
}

// batchLosesSome settles batches in one call after some of their leases have ended.
func batchLosesSome(s *subject) { s.batchesAfter(losses()) }

func batchLosesByReplay(s *subject) { s.batchesAfter(replays()) }

func (s *subject) batchesAfter(losses []loss) {
	s.Helper()
	s.create(1)
	s.fill(0, 8)
	for _, l := range losses {
		for _, o := range outcomes() {
			s.batchAfter(l, o, 1, 8)
		}
		for _, row := range [][2]int{{1, 4}, {3, 6}, {4, 8}} {
			s.batchAfter(l, rheo.OutcomeAck, row[0], row[1])
		}
	}
}

// batchAfter settles the leases of a row of events together: those that are lost are
// refused, and those that others hold stay theirs.
func (s *subject) batchAfter(l loss, o rheo.Outcome, first, last int) {
	s.Helper()
	what := fmt.Sprintf("%s of %d to %d after %s", o, first, last, l.name)
	group := fmt.Sprintf("%s %s %d-%d", l.name, o, first, last)
	s.group(group, rheo.GroupConfig{})
	batch := s.take(group, 1, 2, 3, 4, 5, 6, 7, 8)
	others := l.end(s, group, batch)
	row := batch[first-1 : last]
	for i, err := range s.settle(as(o, row...)...) {
		if slices.Contains(l.lost, row[i].Sequence) {
			s.fails(fmt.Sprintf("%s: event %d", what, row[i].Sequence), err, rheo.ErrStaleLease)
		} else if err != nil {
			s.Fatalf("%s: event %d: %v", what, row[i].Sequence, err)
		}
	}
	for _, err := range s.settle(as(rheo.OutcomeAck, row...)...) {
		s.fails(what+", and again", err, rheo.ErrStaleLease)
	}
	s.ack(others...)
	rest := slices.DeleteFunc(slices.Clone(batch), func(b *rheo.Lease) bool {
		return slices.Contains(l.lost, b.Sequence) || slices.Contains(row, b)
	})
	s.ack(rest...)
}
