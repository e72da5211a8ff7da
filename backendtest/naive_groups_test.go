package backendtest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

type group struct {
	config     rheo.GroupConfig
	created    time.Time
	turn       int
	start      map[int]int64
	cursor     map[int]int64
	deliveries map[place]*delivery // what is open or dead; up to the cursor the rest is acked
}

type place struct {
	partition int
	sequence  int64
}

type delivery struct {
	leased, dead bool
	attempt      int
	at           time.Time // not before, expires, or dead since
	reason       string
	lease        string
}

func (g *group) restart(b *naive) {
	for at, d := range g.deliveries {
		switch {
		case b.has("attempts forgotten") && !d.dead:
			d.attempt = 0
		case b.has("delays forgotten") && !d.leased && !d.dead:
			d.at = time.Time{}
		case b.has("dead letters forgotten") && d.dead, b.has("leases lost for good") && d.leased, b.has("holes forgotten") && !d.dead && !d.leased:
			delete(g.deliveries, at)
		}
	}
	if b.has("start forgotten") {
		g.start = map[int]int64{}
	}
	if b.has("configuration forgotten") {
		g.config.MaxAttempts = rheo.DefaultMaxAttempts
	}
}

func (s *stream) first(p int, from time.Time) int64 {
	for i := range s.log[p] {
		if !s.log[p][i].Timestamp.Before(from) {
			return int64(i + 1)
		}
	}
	return int64(len(s.log[p]) + 1)
}

// resolve returns the cursor that a start comes to.
func (b *naive) resolve(s *stream, start rheo.Start, p int) int64 {
	high := int64(len(s.log[p]))
	switch start.Kind {
	case rheo.StartKindEnd:
		return high
	case rheo.StartKindAfter:
		return start.After
	case rheo.StartKindAfterEach:
		return start.AfterEach[p]
	case rheo.StartKindTime:
		if first := s.first(p, start.Time); first <= high || !b.has("a late start is the beginning") {
			return first - 1
		}
	}
	if b.has("the beginning is the end") {
		return high
	}
	return 0
}

func (b *naive) CreateGroup(_ context.Context, streamName, name string, c rheo.GroupConfig) error {
	s, _, err := b.locked(streamName, "")
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	if s.groups[name] != nil && !b.has("group created again") {
		return rheo.Errorf(rheo.ErrAlreadyExists, "%q", name)
	}
	g := &group{config: c, created: b.now(), start: make(map[int]int64), cursor: make(map[int]int64), deliveries: make(map[place]*delivery)}
	for _, p := range c.Partitions {
		g.start[p] = b.resolve(s, c.Start, p)
		g.cursor[p] = g.start[p]
	}
	if b.has("groups share") {
		for _, other := range s.groups {
			g = other
		}
	}
	s.groups[name] = g
	return nil
}

func (b *naive) Groups(_ context.Context, name string) ([]string, error) {
	s, _, err := b.locked(name, "")
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.groups))
	if b.has("groups unsorted") {
		slices.Reverse(names)
	}
	return names, nil
}

func (g *group) open(p int) []int64 {
	var open []int64
	for at, d := range g.deliveries {
		if at.partition == p && !d.dead {
			open = append(open, at.sequence)
		}
	}
	slices.Sort(open)
	return open
}

func (b *naive) Group(_ context.Context, streamName, name string) (rheo.GroupInfo, error) {
	s, g, err := b.locked(streamName, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	defer b.mu.Unlock()
	info := rheo.GroupInfo{
		Stream: streamName, Group: name, CreatedAt: g.created, MaxAttempts: g.config.MaxAttempts, Ordering: g.config.Ordering,
		DeadLetters: int64(len(g.dead())),
	}
	for _, p := range g.config.Partitions {
		info.Partitions = append(info.Partitions, b.progress(s, g, p))
	}
	return info, nil
}

func (b *naive) progress(s *stream, g *group, p int) rheo.PartitionInfo {
	now, open := b.now(), g.open(p)
	info := rheo.PartitionInfo{Partition: p, Cursor: g.cursor[p], Frontier: g.cursor[p], HighWatermark: int64(len(s.log[p]))}
	if len(open) > 0 && !b.has("holes do not count") {
		info.Frontier = open[0] - 1
	}
	for at, d := range g.deliveries {
		if b.has("dead letters hold the frontier") && d.dead && at.partition == p {
			info.Frontier = min(info.Frontier, at.sequence-1)
		}
	}
	for _, sequence := range open {
		d := g.deliveries[place{p, sequence}]
		if d.leased && (now.Before(d.at) || b.has("expired is in flight")) {
			info.InFlight++
		} else {
			info.Waiting++
		}
	}
	info.Lag = max(0, info.HighWatermark-info.Frontier)
	if b.has("frontier starts at zero") && info.Frontier == g.start[p] {
		info.Frontier, info.Lag = 0, info.HighWatermark
	}
	if info.Lag > 0 && !b.has("no age") {
		info.OldestUnacked = now.Sub(s.log[p][info.Frontier].Timestamp)
	}
	if b.has("cursor is the frontier") {
		info.Cursor = info.Frontier
	}
	return info
}

// candidates returns what is due in a partition, in order, and rejects what has
// used up its attempts.
func (b *naive) candidates(s *stream, g *group, p int) []int64 {
	now, open := b.now(), g.open(p)
	ordered := g.config.Ordering == rheo.OrderingPartition && !b.has("ordering ignored")
	for _, sequence := range open {
		if d := g.deliveries[place{p, sequence}]; ordered && d.leased && now.Before(d.at) && !b.has("several batches in flight") {
			return nil
		}
	}
	var due []int64
	for _, sequence := range open {
		d := g.deliveries[place{p, sequence}]
		limit := g.config.MaxAttempts
		if b.has("one attempt more") {
			limit++
		}
		switch {
		case now.Before(d.at) && ordered && !b.has("a delay holds nothing"):
			return due
		case now.Before(d.at):
		case d.leased && d.attempt >= limit:
			d.die(now, cmp.Or(d.reason, "lease expired"))
		default:
			due = append(due, sequence)
		}
	}
	var fresh []int64
	for sequence := g.cursor[p] + 1; sequence <= int64(len(s.log[p])); sequence++ {
		fresh = append(fresh, sequence)
	}
	if b.has("new events first") {
		return append(fresh, due...)
	}
	if b.has("highest first") {
		slices.Reverse(due)
	}
	return append(due, fresh...)
}

func (d *delivery) die(now time.Time, reason string) {
	d.dead, d.leased, d.at, d.lease, d.reason = true, false, now, "", reason
}

func (b *naive) Fetch(_ context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	s, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	partitions := g.config.Partitions
	for _, p := range r.Partitions {
		if !slices.Contains(partitions, p) && !b.has("foreign partitions") {
			return nil, rheo.Errorf(rheo.ErrInvalid, "partition %d is not the group's", p)
		}
	}
	if len(r.Partitions) > 0 && !b.has("fetch from anywhere") {
		partitions = r.Partitions
	}
	g.turn++
	var leases []*rheo.Lease
	limit := r.Max
	if b.has("fetch too much") {
		limit *= 2
	}
	for i := range partitions {
		p := partitions[(i+g.turn)%len(partitions)]
		if b.has("first partition first") {
			p = partitions[i]
		}
		for _, sequence := range b.candidates(s, g, p) {
			if len(leases) < limit {
				leases = append(leases, b.lease(s, g, place{p, sequence}, r))
			}
		}
	}
	return leases, nil
}

func (b *naive) lease(s *stream, g *group, at place, r rheo.FetchRequest) *rheo.Lease {
	d := g.deliveries[at]
	if d == nil {
		d = &delivery{}
	}
	if !b.has("handed out twice") || at.sequence != 2 || d.attempt > 0 {
		g.deliveries[at] = d
		g.cursor[at.partition] = max(g.cursor[at.partition], at.sequence)
	}
	reason := d.reason
	switch {
	case b.has("expiry is free") && d.leased:
	default:
		d.attempt++
	}
	d.leased, d.at = true, b.now().Add(r.LeaseDuration)
	if b.has("leases never expire") {
		d.at = d.at.Add(1000 * time.Hour)
	}
	if b.has("one duration") {
		d.at = b.now().Add(rheo.DefaultLeaseDuration)
	}
	b.leases++
	d.lease = fmt.Sprint("lease ", b.leases)
	if b.has("fenced by attempt") {
		d.lease = fmt.Sprintf("%d/%d/%d", at.partition, at.sequence, d.attempt)
	}
	if b.has("reason forgotten") {
		reason = ""
	}
	l := &rheo.Lease{
		Event: b.copied(&s.log[at.partition][at.sequence-1]), Group: r.Group, LeaseID: d.lease,
		Receipt: fmt.Sprintf("%d-%d", at.partition, at.sequence), Attempt: d.attempt, ExpiresAt: d.at, LastReason: reason,
	}
	if b.has("lease without metadata") {
		l.Metadata = nil
	}
	return l
}

// held finds the delivery that a lease is good for.
func (b *naive) held(g *group, l *rheo.Lease, operation string) (*delivery, place, error) {
	at := place{l.Partition, l.Sequence}
	d := g.deliveries[at]
	if d == nil || !d.leased || (d.lease != l.LeaseID && !b.has(operation+" is not fenced")) || b.has("expired is lost") && !b.now().Before(d.at) {
		return nil, at, rheo.Errorf(rheo.ErrStaleLease, "%q", l.LeaseID)
	}
	if l.Receipt != fmt.Sprintf("%d-%d", at.partition, at.sequence) && !b.has("receipts ignored") {
		return nil, at, rheo.Errorf(rheo.ErrReceiptMismatch, "%q", l.Receipt)
	}
	return d, at, nil
}

func (b *naive) Renew(_ context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	_, g, err := b.locked(r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	results := make([]rheo.RenewResult, len(r.Leases))
	for i, l := range r.Leases {
		d, _, err := b.held(g, l, "renew")
		if err != nil {
			results[i].Err = err
			if b.has("a lost lease ends the batch") {
				break
			}
			continue
		}
		switch b.bug {
		case "renewal adds":
			d.at = d.at.Add(r.Duration)
		case "renewal does nothing":
		case "renewal never shortens":
			if until := b.now().Add(r.Duration); until.After(d.at) {
				d.at = until
			}
		default:
			d.at = b.now().Add(r.Duration)
		}
		results[i].ExpiresAt = b.now().Add(r.Duration)
	}
	return results, nil
}
