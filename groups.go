package rheo

import (
	"context"
	"slices"
	"time"
)

// GroupConfig is what a group is created with.
type GroupConfig struct {
	// Start is where the group begins in each partition. Default: the beginning.
	Start Start
	// Partitions limits the group to a part of the stream. Empty means all.
	Partitions []int
	// MaxAttempts is how often an event is handed out before it is rejected.
	// Default [DefaultMaxAttempts].
	MaxAttempts int
	// Ordering says whether order is kept while an event fails.
	Ordering Ordering
}

// Ordering is how strictly a group keeps the order within a partition.
type Ordering string

const (
	// OrderingNone hands out the lowest sequences first but lets later events
	// overtake one that is in flight or waits for its retry. Default.
	OrderingNone Ordering = "none"
	// OrderingPartition has one batch of a partition in flight at a time; an
	// event that fails holds its partition until it is acked or rejected.
	OrderingPartition Ordering = "partition"
)

// StartKind tells the ways to start a group apart.
type StartKind int

// The ways to start, one for each constructor.
const (
	StartKindBeginning StartKind = iota
	StartKindEnd
	StartKindAfter
	StartKindAfterEach
	StartKindTime
)

// Start is a place in every partition of a stream. Make one with [StartBeginning]
// and the functions beside it; the zero value is the beginning.
type Start struct {
	Kind      StartKind
	After     int64         // StartKindAfter
	AfterEach map[int]int64 // StartKindAfterEach
	Time      time.Time     // StartKindTime
}

// StartBeginning starts with the first event.
func StartBeginning() Start { return Start{} }

// StartEnd starts with what is appended from now on.
func StartEnd() Start { return Start{Kind: StartKindEnd} }

// StartAfter starts behind the sequence, in every partition.
func StartAfter(sequence int64) Start { return Start{Kind: StartKindAfter, After: sequence} }

// StartAfterEach starts behind a sequence of its own in each partition named,
// and at the beginning of the others.
func StartAfterEach(sequences map[int]int64) Start {
	return Start{Kind: StartKindAfterEach, AfterEach: sequences}
}

// StartTime starts each partition with its first event, by sequence, whose
// timestamp is t or later; where there is none yet, with what is appended from
// now on.
func StartTime(t time.Time) Start { return Start{Kind: StartKindTime, Time: t} }

func (s Start) check(partitions int) error {
	switch s.Kind {
	case StartKindBeginning, StartKindEnd:
	case StartKindTime:
		return checkTimestamp(s.Time)
	case StartKindAfter:
		if s.After < 0 {
			return invalidf("start sequence", "is %d, must not be negative", s.After)
		}
	case StartKindAfterEach:
		for p, sequence := range s.AfterEach {
			if err := checkRange("start partition", int64(p), 0, int64(partitions-1)); err != nil {
				return err
			}
			if sequence < 0 {
				return invalidf("start sequence", "is %d, must not be negative", sequence)
			}
		}
	default:
		return invalidf("start", "has the unknown kind %d", s.Kind)
	}
	return nil
}

// CreateGroup makes a group on a stream. Its deliveries start where
// config.Start says, as the stream is at this moment. It returns
// [ErrAlreadyExists] if the stream has a group of that name, whatever its
// configuration; a service that starts many times simply ignores that error.
func (i *Instance) CreateGroup(ctx context.Context, stream, group string, config GroupConfig) error {
	n, err := i.onStream(ctx, stream, group)
	if err != nil {
		return err
	}
	if config.MaxAttempts == 0 {
		config.MaxAttempts = DefaultMaxAttempts
	}
	if config.Ordering == "" {
		config.Ordering = OrderingNone
	}
	if err := config.check(n); err != nil {
		return err
	}
	config.Partitions = everyPartition(config.Partitions, n)
	return i.backend.CreateGroup(ctx, stream, group, config)
}

func (c *GroupConfig) check(partitions int) error {
	if err := c.Start.check(partitions); err != nil {
		return err
	}
	if err := checkPartitions(c.Partitions, partitions); err != nil {
		return err
	}
	if err := checkRange("max attempts", int64(c.MaxAttempts), 1, MaxAttemptsLimit); err != nil {
		return err
	}
	if c.Ordering != OrderingNone && c.Ordering != OrderingPartition {
		return invalidf("ordering", "is %q, must be none or partition", string(c.Ordering))
	}
	return nil
}

// GroupInfo describes a group as it is now.
type GroupInfo struct {
	Stream      string    `json:"stream"`
	Group       string    `json:"group"`
	MaxAttempts int       `json:"max_attempts"`
	Ordering    Ordering  `json:"ordering"`
	CreatedAt   time.Time `json:"created_at"`
	// Partitions has an entry for each partition that the group reads, ascending.
	Partitions []PartitionInfo `json:"partitions"`
	// DeadLetters is how many rejected deliveries wait to be looked at.
	DeadLetters int64 `json:"dead_letters"`
}

// PartitionInfo is how far a group is in one partition.
type PartitionInfo struct {
	Partition     int   `json:"partition"`
	Cursor        int64 `json:"cursor"`         // highest sequence ever offered
	Frontier      int64 `json:"frontier"`       // all up to here is acked or rejected
	HighWatermark int64 `json:"high_watermark"` // last sequence in the log
	Lag           int64 `json:"lag"`            // HighWatermark - Frontier
	InFlight      int64 `json:"in_flight"`      // leased, and the lease has not expired
	Waiting       int64 `json:"waiting"`        // offered before, to be delivered again
	// Full is set while the partition's bookkeeping is at its bound of holes: no
	// event is offered for the first time until some of the holes close.
	Full bool `json:"full"`
	// OldestUnacked is the age of the first event above the frontier, 0 if there
	// is none.
	OldestUnacked time.Duration `json:"oldest_unacked_ns"`
}

// Lag is the sum over the partitions.
func (g *GroupInfo) Lag() int64 { return g.sum(func(p *PartitionInfo) int64 { return p.Lag }) }

// InFlight is the sum over the partitions.
func (g *GroupInfo) InFlight() int64 {
	return g.sum(func(p *PartitionInfo) int64 { return p.InFlight })
}

// Waiting is the sum over the partitions.
func (g *GroupInfo) Waiting() int64 { return g.sum(func(p *PartitionInfo) int64 { return p.Waiting }) }

// OldestUnacked is the longest over the partitions.
func (g *GroupInfo) OldestUnacked() time.Duration {
	var oldest time.Duration
	for i := range g.Partitions {
		oldest = max(oldest, g.Partitions[i].OldestUnacked)
	}
	return oldest
}

// Full is set if any partition is; see [PartitionInfo].
func (g *GroupInfo) Full() bool {
	return slices.ContainsFunc(g.Partitions, func(p PartitionInfo) bool { return p.Full })
}

func (g *GroupInfo) sum(of func(*PartitionInfo) int64) int64 {
	var total int64
	for i := range g.Partitions {
		total += of(&g.Partitions[i])
	}
	return total
}

// Groups lists the names of a stream's groups, sorted.
func (i *Instance) Groups(ctx context.Context, stream string) ([]string, error) {
	if err := i.ready(ctx); err != nil {
		return nil, err
	}
	if _, err := i.partitions(ctx, stream); err != nil {
		return nil, err
	}
	return i.backend.Groups(ctx, stream)
}

// GroupInfo describes the group: progress, lag, in flight, waiting, dead letters.
func (i *Instance) GroupInfo(ctx context.Context, stream, group string) (GroupInfo, error) {
	if _, err := i.onStream(ctx, stream, group); err != nil {
		return GroupInfo{}, err
	}
	return i.backend.Group(ctx, stream, group)
}

// Lag is how far a group is behind its stream.
type Lag struct {
	Stream string `json:"stream"`
	Group  string `json:"group"`
	// Lag is the sum over the partitions: events neither acked nor rejected.
	Lag           int64          `json:"lag"`
	OldestUnacked time.Duration  `json:"-"` // the age of the oldest of them
	Partitions    []PartitionLag `json:"partitions"`
}

// PartitionLag is how far a group is behind in one partition: Lag is
// HighWatermark - Frontier, which holes above the frontier do not lessen.
type PartitionLag struct {
	Partition     int   `json:"partition"`
	Frontier      int64 `json:"frontier"`
	HighWatermark int64 `json:"high_watermark"`
	Lag           int64 `json:"lag"`
}

// Lag tells how far the group is behind, per partition and summed.
func (i *Instance) Lag(ctx context.Context, stream, group string) (Lag, error) {
	info, err := i.GroupInfo(ctx, stream, group)
	if err != nil {
		return Lag{}, err
	}
	lag := Lag{Stream: stream, Group: group, Lag: info.Lag(), OldestUnacked: info.OldestUnacked()}
	for _, p := range info.Partitions {
		lag.Partitions = append(lag.Partitions, PartitionLag{
			Partition: p.Partition, Frontier: p.Frontier, HighWatermark: p.HighWatermark, Lag: p.Lag,
		})
	}
	return lag, nil
}

// onStream starts a call on a group: the names are checked, then that the stream
// exists, whose number of partitions it returns.
func (i *Instance) onStream(ctx context.Context, stream, group string) (int, error) {
	if err := i.ready(ctx); err != nil {
		return 0, err
	}
	if err := checkName("group", group); err != nil {
		return 0, err
	}
	return i.partitions(ctx, stream)
}
