package delivery

import (
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// Fetch is a fetch under way: it goes from partition to partition until it has
// what it was asked for.
type Fetch struct {
	request rheo.FetchRequest
	group   Group
	claim   uint64
	now     time.Time
	left    int
}

// Group is what a plan needs to know of a group.
type Group struct {
	Partitions  []int // ascending
	MaxAttempts int
	Ordered     bool
	MaxRuns     int // bound of a ledger's runs; 0 means ledger.DefaultMaxRuns
}

// NewFetch plans the request, all of whose leases will be of one claim. It
// returns ErrInvalid if the request names a partition that the group does not
// read.
func NewFetch(r rheo.FetchRequest, g Group, now time.Time) (*Fetch, error) {
	for _, p := range r.Partitions {
		if !slices.Contains(g.Partitions, p) {
			return nil, rheo.Errorf(rheo.ErrInvalid, "partition %d is not among those that group %q reads", p, r.Group)
		}
	}
	if g.MaxRuns == 0 {
		g.MaxRuns = ledger.DefaultMaxRuns
	}
	return &Fetch{request: r, group: g, claim: newClaim(), now: now.Truncate(time.Microsecond), left: r.Max}, nil
}

// Order returns the partitions to try, in the order in which to try them. turn
// goes up by one with every fetch of the group: each starts at another partition,
// so that one with a backlog starves none.
func (f *Fetch) Order(turn uint64) []int {
	partitions := f.request.Partitions
	if len(partitions) == 0 {
		partitions = f.group.Partitions
	}
	if len(partitions) == 1 {
		return partitions
	}
	start := int(turn % uint64(len(partitions)))
	order := make([]int, 0, len(partitions))
	return append(append(order, partitions[start:]...), partitions[:start]...)
}

// Claim returns the claim that all leases of this fetch share.
func (f *Fetch) Claim() uint64 { return f.claim }

// Expires returns when the leases of this fetch expire.
func (f *Fetch) Expires() time.Time { return f.now.Add(f.request.LeaseDuration) }

// Done reports whether the fetch has all it was asked for.
func (f *Fetch) Done() bool { return f.left == 0 }

// Apply claims on one partition's ledger, up to its high watermark. The caller
// stores the ledger, with a dead letter for each sequence in Dead, if there are
// any spans or dead; and then calls Took.
func (f *Fetch) Apply(l *ledger.Ledger, high int64) ledger.Claimed {
	return l.Claim(ledger.Claim{
		ID:          f.claim,
		Consumer:    f.request.ConsumerID,
		Now:         f.now.UnixMicro(),
		Expires:     f.Expires().UnixMicro(),
		Max:         f.left,
		High:        high,
		MaxAttempts: f.group.MaxAttempts,
		MaxRuns:     f.group.MaxRuns,
		Ordered:     f.group.Ordered,
	})
}

// Took counts what Apply claimed, once it is stored, against what is still
// wanted.
func (f *Fetch) Took(spans []ledger.Span) {
	for _, s := range spans {
		f.left -= s.Len()
	}
}

// Leases appends a lease for each sequence of the spans, in order. load fills in
// the event of a sequence; what it leaves out stays empty.
func (f *Fetch) Leases(dst []*rheo.Lease, partition int, spans []ledger.Span, load func(sequence int64, e *rheo.Event)) []*rheo.Lease {
	n := 0
	for _, span := range spans {
		n += span.Len()
	}
	leases := make([]rheo.Lease, n)
	tokens, ends := f.tokens(partition, spans, n)
	expires := f.Expires().UTC()
	at, start := 0, 0
	for _, span := range spans {
		for sequence := span.From; sequence <= span.To; sequence++ {
			l := &leases[at]
			load(sequence, &l.Event)
			l.Group = f.request.Group
			l.LeaseID = tokens[start:ends[at]]
			l.Receipt = l.LeaseID[claimDigits+1:]
			l.Attempt, l.LastReason = span.Attempt, span.Reason
			l.ExpiresAt = expires
			dst = append(dst, l)
			start = ends[at]
			at++
		}
	}
	return dst
}

// tokens makes the lease IDs of the spans as one string, with the end of each:
// one allocation, not one for each.
func (f *Fetch) tokens(partition int, spans []ledger.Span, n int) (tokens string, ends []int) {
	const typical = claimDigits + 12
	buf := make([]byte, 0, n*typical)
	ends = make([]int, 0, n)
	for _, span := range spans {
		for sequence := span.From; sequence <= span.To; sequence++ {
			buf = appendToken(buf, f.claim, partition, sequence)
			ends = append(ends, len(buf))
		}
	}
	return string(buf), ends
}
