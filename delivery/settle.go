package delivery

import (
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// Settle is a settle request, sorted by partition.
type Settle struct {
	leases  func(item int) *rheo.Lease
	results []error
	parts   []settlePart
}

type settlePart struct {
	partition int
	items     []int // index in the request of each settlement
	batch     []ledger.Settlement
}

// NewSettle plans the request. Items whose lease cannot be one of the group's
// have their result already.
func NewSettle(r rheo.SettleRequest, g Group, now time.Time) *Settle {
	s := &Settle{
		leases:  func(item int) *rheo.Lease { return r.Settlements[item].Lease },
		results: make([]error, len(r.Settlements)),
	}
	for item := range r.Settlements {
		settlement := &r.Settlements[item]
		partition, ref, err := parse(settlement.Lease)
		if err == nil && !slices.Contains(g.Partitions, partition) {
			err = stale(settlement.Lease)
		}
		if err != nil {
			s.results[item] = err
			continue
		}
		part := s.part(partition, len(r.Settlements))
		part.items = append(part.items, item)
		part.batch = append(part.batch, translate(settlement, ref, now))
	}
	return s
}

func (s *Settle) part(partition, capacity int) *settlePart {
	for i := range s.parts {
		if s.parts[i].partition == partition {
			return &s.parts[i]
		}
	}
	s.parts = append(s.parts, settlePart{
		partition: partition,
		items:     make([]int, 0, capacity),
		batch:     make([]ledger.Settlement, 0, capacity),
	})
	return &s.parts[len(s.parts)-1]
}

func translate(s *rheo.Settlement, ref ledger.Ref, now time.Time) ledger.Settlement {
	out := ledger.Settlement{Ref: ref, Reason: s.Reason}
	switch s.Outcome {
	case rheo.OutcomeAck:
		out.Outcome = ledger.Ack
	case rheo.OutcomeNack:
		out.Outcome = ledger.Nack
		if s.Delay > 0 {
			out.NotBefore = now.Add(s.Delay).UnixMicro()
		}
	case rheo.OutcomeReject:
		out.Outcome = ledger.Reject
	case rheo.OutcomeRelease:
		out.Outcome = ledger.Release
	}
	return out
}

// Partitions returns the partitions to apply the plan to, ascending.
func (s *Settle) Partitions() []int {
	partitions := make([]int, len(s.parts))
	for i := range s.parts {
		partitions[i] = s.parts[i].partition
	}
	slices.Sort(partitions)
	return partitions
}

// Apply settles on one partition's ledger. The caller stores the ledger, with a
// dead letter for each sequence in dead, if changed.
func (s *Settle) Apply(partition int, l *ledger.Ledger, maxAttempts int) (dead []ledger.Dead, changed bool) {
	for i := range s.parts {
		part := &s.parts[i]
		if part.partition != partition {
			continue
		}
		settled := l.Settle(part.batch, maxAttempts)
		for j, held := range settled.Held {
			item := part.items[j]
			s.results[item] = nil
			if !held {
				s.results[item] = stale(s.leases(item))
			}
			changed = changed || held
		}
		return settled.Dead, changed
	}
	return nil, false
}

// Results returns the result of each item of the request.
func (s *Settle) Results() []error { return s.results }
