package redis

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rheo-go/rheo"
)

// A token is what a fetch fences its deliveries with; 0 is nobody's. It is random, not
// counted: a server that lost unsynced claims in a crash would count to the same
// number again. With the attempt beside it, it fits the 53 bits that scripts count in.
const (
	tokenBits   = 33
	tokenDigits = 9 // hexadecimal
)

func newToken() uint64 { return 1 + rand.Uint64N(1<<tokenBits-1) }

// leaseID is the token, the partition and the sequence, joined by dashes.
func leaseID(token uint64, partition int, sequence int64) string {
	buf := make([]byte, 0, tokenDigits+16)
	digits := strconv.FormatUint(token, 16)
	for range tokenDigits - len(digits) {
		buf = append(buf, '0')
	}
	buf = append(append(buf, digits...), '-')
	buf = append(strconv.AppendInt(buf, int64(partition), 10), '-')
	return string(strconv.AppendInt(buf, sequence, 10))
}

// receipt is the ID of the pending entry.
func receipt(sequence int64) string { return formatInt(sequence) + "-0" }

// held is a delivery as its lease names it.
type held struct {
	item      int // in the request
	partition int
	token     uint64
	sequence  int64
}

// parseLease returns the delivery that a lease names.
func parseLease(l *rheo.Lease) (held, error) {
	parts := strings.Split(l.LeaseID, "-")
	if len(parts) != 3 || len(parts[0]) != tokenDigits {
		return held{}, staleLease(l)
	}
	token, errToken := strconv.ParseUint(parts[0], 16, 64)
	partition, errPartition := strconv.Atoi(parts[1])
	sequence, errSequence := strconv.ParseInt(parts[2], 10, 64)
	if err := cmp.Or(errToken, errPartition, errSequence); err != nil ||
		token == 0 || token > 1<<tokenBits || sequence < 1 || sequence >= mostSequence {
		return held{}, staleLease(l)
	}
	if l.Receipt != receipt(sequence) {
		return held{}, rheo.Errorf(rheo.ErrReceiptMismatch, "receipt %q did not come with lease %q", l.Receipt, l.LeaseID)
	}
	return held{partition: partition, token: token, sequence: sequence}, nil
}

// leaseBatch is what a call brings to one partition, by sequence.
type leaseBatch struct {
	partition int
	items     []held
}

// leaseBatches sorts n leases by partition and sequence. refuse is told of those that
// cannot be the group's.
func (g *group) leaseBatches(n int, lease func(int) *rheo.Lease, refuse func(item int, err error)) []leaseBatch {
	all := make([]held, 0, n)
	for item := range n {
		l := lease(item)
		h, err := parseLease(l)
		if err == nil && g.keys[h.partition] == nil {
			err = staleLease(l)
		}
		if err != nil {
			refuse(item, err)
			continue
		}
		h.item = item
		all = append(all, h)
	}
	slices.SortStableFunc(all, func(x, y held) int {
		return cmp.Or(cmp.Compare(x.partition, y.partition), cmp.Compare(x.sequence, y.sequence))
	})
	var batches []leaseBatch
	for i, h := range all {
		if i == 0 || h.partition != all[i-1].partition {
			batches = append(batches, leaseBatch{partition: h.partition})
		}
		last := &batches[len(batches)-1]
		last.items = append(last.items, h)
	}
	return batches
}

// runs calls f with each run of deliveries that follow each other and are alike.
func (l *leaseBatch) runs(alike func(x, y int) bool, f func(first, last held)) {
	start := 0
	for i := range l.items {
		next := i + 1
		if next < len(l.items) && l.items[next].sequence == l.items[i].sequence+1 &&
			l.items[next].token == l.items[i].token && alike(l.items[next].item, l.items[i].item) {
			continue
		}
		f(l.items[start], l.items[i])
		start = next
	}
}
