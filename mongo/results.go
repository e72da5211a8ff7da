package mongo

import (
	"context"
	"slices"

	"github.com/rheo-go/rheo"
)

// fetchStored reads what was stored before under the IDs that turned out to be
// duplicates.
func (a *appending) fetchStored(ctx context.Context) error {
	var stretches []stretch
	for _, sh := range a.shares {
		for _, slot := range sh.slots {
			if slot.stored != nil {
				stretches = append(stretches, stretch{sh.partition, slot.sequence, slot.sequence})
			}
		}
	}
	if len(stretches) == 0 {
		return nil
	}
	have, err := a.b.load(ctx, a.stream, joined(stretches))
	if err != nil {
		return a.inDoubt(err)
	}
	for _, sh := range a.shares {
		for _, slot := range sh.slots {
			if slot.stored == nil {
				continue
			}
			if *slot.stored, err = have.event(sh.partition, slot.sequence); err != nil {
				return a.inDoubt(err)
			}
		}
	}
	return nil
}

// finish sets a call's results. If the append failed, they say what of it is in the
// log, where anything is.
func (a *appending) finish(c *appendCall, err error) {
	c.err = err
	results, some := make([]rheo.AppendResult, len(c.request.Events)), err == nil
	for i := range c.request.Events {
		e := &c.request.Events[i]
		at, _ := slices.BinarySearchFunc(a.shares, e.Partition, func(sh *share, p int) int { return sh.partition - p })
		sh := a.shares[at]
		slot := sh.byID[e.ID]
		switch {
		case slot.sequence == 0 || slot.stored != nil && slot.stored.ID == "":
			results[i] = rheo.AppendResult{Event: *e, Err: err}
			continue
		case slot.stored != nil:
			results[i] = rheo.AppendResult{Event: slot.stored.Clone(), Duplicate: true}
		case slot.event != e:
			results[i] = rheo.AppendResult{Event: slot.event.Clone(), Duplicate: true}
		default:
			results[i] = rheo.AppendResult{Event: *e}
		}
		results[i].Sequence = slot.sequence
		some = true
	}
	if some {
		c.results = results
	}
}
