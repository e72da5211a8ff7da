package ledger

import (
	"cmp"
	"slices"
)

// ascending returns the order in which n items ascend by sequence, those with
// equal sequences in the order given; nil if that is the order they are in.
func ascending(n int, sequence func(int) int64) []int {
	i := 1
	for i < n && sequence(i-1) <= sequence(i) {
		i++
	}
	if i >= n {
		return nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sequence(a), sequence(b)), cmp.Compare(a, b))
	})
	return order
}

// visit returns the index of the i-th item in an order.
func visit(order []int, i int) int {
	if order == nil {
		return i
	}
	return order[i]
}
