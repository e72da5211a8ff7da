package delivery

import (
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// Renew is a renewal, sorted by partition.
type Renew struct {
	leases  []*rheo.Lease
	expires time.Time
	results []rheo.RenewResult
	parts   []renewPart
}

type renewPart struct {
	partition int
	items     []int
	refs      []ledger.Ref
}

// NewRenew plans the request. Items whose lease cannot be one of the group's have
// their result already.
func NewRenew(r rheo.RenewRequest, g Group, now time.Time) *Renew {
	n := &Renew{
		leases:  r.Leases,
		expires: now.Add(r.Duration).UTC().Truncate(time.Microsecond),
		results: make([]rheo.RenewResult, len(r.Leases)),
	}
	for item, lease := range r.Leases {
		partition, ref, err := parse(lease)
		if err == nil && !slices.Contains(g.Partitions, partition) {
			err = stale(lease)
		}
		if err != nil {
			n.results[item].Err = err
			continue
		}
		part := n.part(partition)
		part.items = append(part.items, item)
		part.refs = append(part.refs, ref)
	}
	return n
}

func (n *Renew) part(partition int) *renewPart {
	for i := range n.parts {
		if n.parts[i].partition == partition {
			return &n.parts[i]
		}
	}
	n.parts = append(n.parts, renewPart{partition: partition})
	return &n.parts[len(n.parts)-1]
}

// Partitions returns the partitions to apply the plan to, ascending.
func (n *Renew) Partitions() []int {
	partitions := make([]int, len(n.parts))
	for i := range n.parts {
		partitions[i] = n.parts[i].partition
	}
	slices.Sort(partitions)
	return partitions
}

// Apply renews on one partition's ledger. The caller stores the ledger if
// changed.
func (n *Renew) Apply(partition int, l *ledger.Ledger) (changed bool) {
	for i := range n.parts {
		part := &n.parts[i]
		if part.partition != partition {
			continue
		}
		for j, held := range l.Renew(part.refs, n.expires.UnixMicro()) {
			item := part.items[j]
			if held {
				n.results[item] = rheo.RenewResult{ExpiresAt: n.expires}
				changed = true
			} else {
				n.results[item] = rheo.RenewResult{Err: stale(n.leases[item])}
			}
		}
	}
	return changed
}

// Results returns the result of each lease of the request.
func (n *Renew) Results() []rheo.RenewResult { return n.results }
