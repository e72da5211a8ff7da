package ledger

// Renew makes the leases named that are held expire at expires, and returns,
// by the index in refs, which those are. Held means leased under the claim
// named: a lease that has expired but was not taken again still is. The order
// is free, and ascending is fastest; naming one twice is fine.
func (l *Ledger) Renew(refs []Ref, expires int64) []bool {
	r := renewal{
		edit:    l.runs.edit(),
		refs:    refs,
		order:   ascending(len(refs), func(i int) int64 { return refs[i].Sequence }),
		expires: expires,
		held:    make([]bool, len(refs)),
	}
	for i := 0; i < len(refs); {
		i = r.renewFrom(i)
	}
	r.edit.close()
	return r.held
}

// A renewal is a batch under way.
type renewal struct {
	edit    editor
	refs    []Ref
	order   []int // nil: the refs are in order
	expires int64
	held    []bool
}

// renewFrom renews the i-th item in order, and with it those after it that
// continue it in the same run. It returns the index of the item after them.
func (r *renewal) renewFrom(i int) int {
	first := r.refs[visit(r.order, i)]
	if !r.edit.holds(first) {
		return i + 1
	}
	run, to := r.edit.cur, first.Sequence
	for ; i < len(r.refs); i++ {
		at := visit(r.order, i)
		ref := r.refs[at]
		if ref.Sequence > to {
			if ref.Sequence > to+1 || ref.Sequence > run.To || ref.Claim != first.Claim {
				break
			}
			to++
		}
		r.held[at] = ref.Claim == first.Claim
	}
	run.At = r.expires
	r.edit.turn(to, run)
	return i
}
