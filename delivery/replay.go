package delivery

import (
	"context"
	"errors"
	"slices"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// Reopened is what a replay opened in one partition, and so which dead letters
// to delete with it: all from From on or, if From is 0, those of Sequences.
type Reopened struct {
	From      int64
	Sequences []int64 // ascending, without repeats
	Count     int64   // deliveries opened
}

// SeekTime returns the first sequence of the partition whose event has that
// timestamp or a later one, or one more than the high watermark.
type SeekTime func(ctx context.Context, partition int) (int64, error)

// ReplayPartitions returns the partitions that the request touches, ascending.
func ReplayPartitions(r rheo.ReplayRequest, g Group) ([]int, error) {
	partitions, err := chosen(r.Partitions, g, r.Group)
	if err != nil || r.FromSequence > 0 || !r.FromTime.IsZero() {
		return partitions, err
	}
	return slices.DeleteFunc(partitions, func(p int) bool { return len(r.Sequences[p]) == 0 }), nil
}

// chosen returns the partitions named, or all that the group reads, ascending.
func chosen(named []int, g Group, group string) ([]int, error) {
	if len(named) == 0 {
		return slices.Clone(g.Partitions), nil
	}
	named = slices.Clone(named)
	slices.Sort(named)
	for _, p := range named {
		if !slices.Contains(g.Partitions, p) {
			return nil, rheo.Errorf(rheo.ErrInvalid, "partition %d is not among those that group %q reads", p, group)
		}
	}
	return named, nil
}

// Replay applies the request to one partition's ledger. What lies above the high
// watermark is not there yet, and so not opened: a group may have been created to
// start above the end of the log.
func Replay(ctx context.Context, r rheo.ReplayRequest, partition int, l *ledger.Ledger, high int64, seek SeekTime) (Reopened, error) {
	if r.Sequences != nil {
		return reopenEach(r, partition, l)
	}
	from := r.FromSequence
	if !r.FromTime.IsZero() {
		var err error
		if from, err = seek(ctx, partition); err != nil {
			return Reopened{}, err
		}
	}
	last := min(l.Cursor(), high)
	l.Reopen(from, last)
	return Reopened{From: from, Count: max(0, last-from+1)}, nil
}

func reopenEach(r rheo.ReplayRequest, partition int, l *ledger.Ledger) (Reopened, error) {
	sequences := slices.Clone(r.Sequences[partition])
	slices.Sort(sequences)
	sequences = slices.Compact(sequences)
	sequences = slices.DeleteFunc(sequences, func(s int64) bool { return s > l.Cursor() })
	err := l.ReopenEach(sequences, ledger.DefaultMaxRuns)
	if errors.Is(err, ledger.ErrTooManyRuns) {
		return Reopened{}, rheo.WrapError(rheo.ErrInvalid, err,
			"replaying these %d events of partition %d would leave more than %d separate ranges open; select a narrower range, or replay all from a sequence",
			len(sequences), partition, ledger.DefaultMaxRuns)
	}
	return Reopened{Sequences: sequences, Count: int64(len(sequences))}, err
}

// ResetPartitions returns the partitions that the request touches, ascending.
func ResetPartitions(r rheo.ResetRequest, g Group) ([]int, error) {
	return chosen(r.Partitions, g, r.Group)
}

// StartCursor resolves a start to the cursor a partition's ledger begins with.
func StartCursor(ctx context.Context, s rheo.Start, partition int, high int64, seek SeekTime) (int64, error) {
	switch s.Kind {
	case rheo.StartKindEnd:
		return high, nil
	case rheo.StartKindAfter:
		return s.After, nil
	case rheo.StartKindAfterEach:
		return s.AfterEach[partition], nil
	case rheo.StartKindTime:
		first, err := seek(ctx, partition)
		return first - 1, err
	default:
		return 0, nil
	}
}
