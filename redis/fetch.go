package redis

import (
	"context"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
)

var (
	fetchScript = load("fetch")
	lookScript  = load("look")
)

// straight is how many partitions a fetch goes to one after the other; if it still
// wants more, it first asks the rest, together, which of them are worth it.
const straight = 2

// Fetch implements [rheo.Backend]. It goes from partition to partition until it has
// what it was asked for.
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	plan, err := delivery.NewFetch(r, g.plan, time.Time{})
	if err != nil {
		return nil, err
	}
	f := fetch{backend: b, group: g, request: r, token: newToken()}
	order := plan.Order(g.turn.Add(1))
	for i := 0; i < len(order) && len(f.leases) < r.Max; i++ {
		if i == straight && len(order)-i > straight {
			if order, err = f.worthwhile(ctx, order[i:]); err != nil {
				break
			}
			i = 0
			if len(order) == 0 {
				break
			}
		}
		if err = f.from(ctx, order[i]); err != nil {
			break
		}
	}
	if len(f.leases) > 0 {
		return f.leases, nil // what was in the way will be met again
	}
	return nil, err
}

// fetch is one under way.
type fetch struct {
	backend *Backend
	group   *group
	request rheo.FetchRequest
	token   uint64
	leases  []*rheo.Lease
}

// worthwhile returns those of the partitions in which something may be due.
func (f *fetch) worthwhile(ctx context.Context, partitions []int) ([]int, error) {
	b, override := f.backend, f.backend.override()
	calls := make([]*call, len(partitions))
	for i, p := range partitions {
		k := f.group.keys[p]
		calls[i] = b.call(lookScript, []string{k.meta, k.state}, override)
	}
	if _, err := b.onGroup(ctx, reading, f.group, partitions, calls...); err != nil {
		return nil, err
	}
	var found []int
	for i, c := range calls {
		if c.reply == int64(1) {
			found = append(found, partitions[i])
		}
	}
	return found, nil
}

// from leases what is due in one partition.
func (f *fetch) from(ctx context.Context, partition int) error {
	b, r := f.backend, &f.request
	c := b.call(fetchScript, f.group.keys[partition].all(),
		r.Group, r.ConsumerID, int64(f.token), r.Max-len(f.leases), millis(r.LeaseDuration), b.override()) //nolint:gosec // it has 33 bits
	if _, err := b.onGroup(ctx, writing, f.group, []int{partition}, c); err != nil {
		return err
	}
	return f.read(partition, c.reply)
}

// read takes {when the leases end, redeliveries, first deliveries, their places}.
func (f *fetch) read(partition int, reply any) error {
	const parts, widthAgain = 4, 4
	answer, _ := reply.([]any)
	if len(answer) != parts {
		return damaged(partition, "the script's answer is another's")
	}
	due, _ := answer[0].(int64)
	again, _ := answer[1].([]any)
	first, _ := answer[2].([]any)
	d := deliveries{
		lease:  rheo.Lease{Group: f.request.Group, ExpiresAt: time.UnixMilli(due).UTC()},
		token:  f.token,
		leases: make([]rheo.Lease, 0, len(again)/widthAgain+len(first)),
	}
	d.lease.Stream, d.lease.Partition = f.request.Stream, partition
	for redelivery := range slices.Chunk(again, widthAgain) {
		attempt, _ := redelivery[0].(int64)
		reason, _ := redelivery[1].(string)
		if err := d.add(redelivery[2], redelivery[3], attempt, reason); err != nil {
			return err
		}
	}
	if err := d.addFirst(first, answer[3]); err != nil {
		return err
	}
	for i := range d.leases {
		f.leases = append(f.leases, &d.leases[i])
	}
	return nil
}

// deliveries are what one partition has given.
type deliveries struct {
	lease  rheo.Lease // what all have in common
	token  uint64
	leases []rheo.Lease
}

// addFirst adds first deliveries. Their places are the sequence of the first, if they are
// in a row, and else the ID of each.
func (d *deliveries) addFirst(events []any, places any) error {
	ids, _ := places.([]any)
	next, inRow := places.(int64)
	if !inRow && len(ids) != len(events) {
		return damaged(d.lease.Partition, "the script's answer is another's")
	}
	for i, event := range events {
		var err error
		if inRow {
			err = d.addAt(next+int64(i), event, 1, "")
		} else {
			err = d.add(ids[i], event, 1, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *deliveries) add(id, event any, attempt int64, reason string) error {
	sequence, err := parseEntryID(d.lease.Partition, id)
	if err != nil {
		return err
	}
	return d.addAt(sequence, event, attempt, reason)
}

func (d *deliveries) addAt(sequence int64, event any, attempt int64, reason string) error {
	d.leases = append(d.leases, d.lease)
	l := &d.leases[len(d.leases)-1]
	l.Sequence, l.Attempt, l.LastReason = sequence, int(attempt), reason
	l.LeaseID, l.Receipt = leaseID(d.token, l.Partition, sequence), receipt(sequence)
	text, _ := event.(string)
	return decodeEvent(&l.Event, text)
}
