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

// read takes {when the leases end, redeliveries, first deliveries}.
func (f *fetch) read(partition int, reply any) error {
	triple, _ := reply.([]any)
	if len(triple) != 3 {
		return damaged(partition, "the script's answer is another's")
	}
	due, _ := triple[0].(int64)
	again, _ := triple[1].([]any)
	first, _ := triple[2].([]any)
	const widthAgain, widthFirst = 4, 2
	leases := make([]rheo.Lease, 0, len(again)/widthAgain+len(first)/widthFirst)
	expires := time.UnixMilli(due).UTC()
	add := func(pair []any, attempt int64, reason string) error {
		leases = append(leases, rheo.Lease{Group: f.request.Group, Attempt: int(attempt), ExpiresAt: expires, LastReason: reason})
		l := &leases[len(leases)-1]
		l.Stream, l.Partition = f.request.Stream, partition
		if err := decodePair(&l.Event, pair); err != nil {
			return err
		}
		l.LeaseID, l.Receipt = leaseID(f.token, partition, l.Sequence), receipt(l.Sequence)
		return nil
	}
	for delivery := range slices.Chunk(again, widthAgain) {
		attempt, _ := delivery[0].(int64)
		reason, _ := delivery[1].(string)
		if err := add(delivery[2:], attempt, reason); err != nil {
			return err
		}
	}
	for pair := range slices.Chunk(first, widthFirst) {
		if err := add(pair, 1, ""); err != nil {
			return err
		}
	}
	for i := range leases {
		f.leases = append(f.leases, &leases[i])
	}
	return nil
}
