package delivery

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// A lease ID is the claim in 16 hex digits, the partition and the sequence,
// joined by dashes. The receipt is its tail, from the partition on: it finds the
// delivery, and the claim fences it.
const claimDigits = 16

// newClaim returns a claim no other fetch has. It is random, not counted: a store
// that may lose an unsynced claim in a crash would count to the same number
// again, and fence nothing.
func newClaim() uint64 {
	for {
		if claim := rand.Uint64(); claim != 0 {
			return claim
		}
	}
}

func appendToken(b []byte, claim uint64, partition int, sequence int64) []byte {
	const hex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hex[claim>>shift&0xf])
	}
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(partition), 10)
	b = append(b, '-')
	return strconv.AppendInt(b, sequence, 10)
}

// parse returns the partition and ledger reference that a lease names.
func parse(l *rheo.Lease) (partition int, ref ledger.Ref, err error) {
	id := l.LeaseID
	if len(id) < claimDigits+4 || id[claimDigits] != '-' {
		return 0, ledger.Ref{}, stale(l)
	}
	claim, err := strconv.ParseUint(id[:claimDigits], 16, 64)
	if err != nil {
		return 0, ledger.Ref{}, stale(l)
	}
	place := id[claimDigits+1:]
	p, s, _ := strings.Cut(place, "-")
	partition, errP := strconv.Atoi(p)
	sequence, errS := strconv.ParseInt(s, 10, 64)
	if errP != nil || errS != nil {
		return 0, ledger.Ref{}, stale(l)
	}
	if l.Receipt != place {
		return 0, ledger.Ref{}, rheo.Errorf(rheo.ErrReceiptMismatch,
			"receipt %q did not come with lease %q", l.Receipt, id)
	}
	return partition, ledger.Ref{Sequence: sequence, Claim: claim}, nil
}

func stale(l *rheo.Lease) error {
	return rheo.Errorf(rheo.ErrStaleLease,
		"lease %q on %s/%d/%d for group %q is no longer held: it was settled, expired and taken again, or replayed",
		l.LeaseID, l.Stream, l.Partition, l.Sequence, l.Group)
}
