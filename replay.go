package rheo

import (
	"context"
	"time"
)

// ReplaySelection says which events a group shall be handed again. Exactly one of
// FromSequence, FromTime, Query and IDs is set.
type ReplaySelection struct {
	// FromSequence selects everything from that sequence on, in every partition.
	FromSequence int64
	// FromTime selects, in each partition, everything from the first event on,
	// by sequence, whose timestamp is that or later.
	FromTime time.Time
	// Query selects what it finds. Its order and limit do not matter.
	Query *Query
	// IDs selects the events of these IDs, dead letters most of all.
	IDs []string
	// Partitions limits the selection. Empty means all that the group reads.
	Partitions []int
}

// Replay hands events out to the group again, from attempt 1, whether they were
// acked, rejected, in flight or waiting; a lease on one of them is fenced off,
// and its dead letter is gone. A selection may reach below where the group
// started. Nothing below the selection is touched, no event never offered yet,
// which is still to come anyway, and no other group. It returns how many
// deliveries it opened.
//
// A selection by query or IDs leaves holes between; if more of them would result
// than the store keeps for a partition (10,000 by default), the error is
// [ErrInvalid] and nothing changed: select a narrower range, or all from a
// sequence.
func (i *Instance) Replay(ctx context.Context, stream, group string, selection ReplaySelection) (int64, error) {
	n, err := i.onStream(ctx, stream, group)
	if err != nil {
		return 0, err
	}
	if err := selection.check(n); err != nil {
		return 0, err
	}
	request := ReplayRequest{
		Stream: stream, Group: group, Partitions: selection.Partitions,
		FromSequence: selection.FromSequence, FromTime: selection.FromTime,
	}
	if selection.Query != nil || selection.IDs != nil {
		if request.Sequences, err = i.selected(ctx, stream, selection); err != nil {
			return 0, err
		}
	}
	return i.backend.Replay(ctx, request)
}

func (s *ReplaySelection) check(partitions int) error {
	ways := 0
	for _, set := range []bool{s.FromSequence != 0, !s.FromTime.IsZero(), s.Query != nil, s.IDs != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return invalidf("replay selection", "must set one of FromSequence, FromTime, Query and IDs, not %d of them", ways)
	}
	if s.FromSequence < 0 {
		return invalidf("replay sequence", "is %d, must be 1 or more", s.FromSequence)
	}
	return checkPartitions(s.Partitions, partitions)
}

// selected resolves a selection by query or IDs. The log never changes, so this
// need not be one step with the replay.
func (i *Instance) selected(ctx context.Context, stream string, s ReplaySelection) (map[int][]int64, error) {
	q := Query{}
	if s.Query != nil {
		q = *s.Query
		q.OrderBy, q.Descending, q.Limit = BySequence, false, 0
	}
	missing := make(map[string]struct{}, len(s.IDs))
	if s.IDs != nil {
		for _, id := range s.IDs {
			missing[id] = struct{}{}
		}
		q.Where = append(q.Where, Where("id", OpIn, s.IDs))
	}
	sequences := make(map[int][]int64)
	for e, err := range i.QueryAll(ctx, stream, q) {
		if err != nil {
			return nil, err
		}
		delete(missing, e.ID)
		sequences[e.Partition] = append(sequences[e.Partition], e.Sequence)
	}
	for id := range missing {
		return nil, invalidf("id", "%q is not in stream %q; nothing was replayed", id, stream)
	}
	return sequences, nil
}

// ResetOptions says how to reset a group.
type ResetOptions struct {
	// Confirm must be true: a reset forgets what the group has done.
	Confirm bool
	// Start is where the group begins anew. Default: where it was created to.
	Start *Start
	// Partitions limits the reset. Empty means all that the group reads.
	Partitions []int
}

// ResetGroup starts the group over: it forgets acks, attempts and dead letters,
// and fences every lease. Without opts.Confirm it returns [ErrConfirmRequired].
func (i *Instance) ResetGroup(ctx context.Context, stream, group string, opts ResetOptions) error {
	n, err := i.onStream(ctx, stream, group)
	if err != nil {
		return err
	}
	if err := checkPartitions(opts.Partitions, n); err != nil {
		return err
	}
	if opts.Start != nil {
		if err := opts.Start.check(n); err != nil {
			return err
		}
	}
	if !opts.Confirm {
		return Errorf(ErrConfirmRequired, "resetting group %q of stream %q forgets what it has done; set Confirm", group, stream)
	}
	return i.backend.Reset(ctx, ResetRequest{Stream: stream, Group: group, Partitions: opts.Partitions, Start: opts.Start})
}
