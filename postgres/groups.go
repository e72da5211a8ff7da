package postgres

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

var (
	groupFind     = load("group_find")
	groupList     = load("group_list")
	groupCreate   = load("group_create")
	groupInfo     = load("group_info")
	highsOf       = load("highs")
	seekStatement = load("seek_time")
)

// group is what never changes of a group, remembered, and what this process
// knows of its ledgers.
type group struct {
	id      int64
	stream  *stream
	name    string
	plan    delivery.Group
	entries map[int]*entry // by partition; the map itself never changes
	changes atomic.Uint64  // how often this process has changed one of them
	turn    atomic.Uint64
	glance  glance
}

type groupKey struct{ stream, group string }

// group returns the group of that name, asking the database the first time.
func (b *Backend) group(ctx context.Context, streamName, name string) (*group, error) {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	if found, ok := b.groups.Load(groupKey{streamName, name}); ok && found.(*group).stream == s {
		return found.(*group), nil
	}
	g := &group{stream: s, name: name, entries: make(map[int]*entry)}
	err = b.trip(ctx, reading, func(batch *pgx.Batch) {
		batch.Queue(b.text(groupFind), s.id, name).QueryRow(func(row pgx.Row) error {
			var ordering string
			err := row.Scan(&g.id, &g.plan.Partitions, &g.plan.MaxAttempts, &ordering)
			g.plan.Ordered = ordering == string(rheo.OrderingPartition)
			return err
		})
	})
	if noRows(err) {
		return nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, streamName)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range g.plan.Partitions {
		g.entries[p] = &entry{partition: p, own: newTurnstile()}
	}
	known, loaded := b.groups.LoadOrStore(groupKey{streamName, name}, g)
	if loaded && known.(*group).stream != s {
		b.groups.Store(groupKey{streamName, name}, g)
		return g, nil
	}
	return known.(*group), nil
}

func (g *group) ordering() rheo.Ordering {
	if g.plan.Ordered {
		return rheo.OrderingPartition
	}
	return rheo.OrderingNone
}

// gone is told when a group that was remembered is no longer in the database.
func (b *Backend) groupGone(g *group) error {
	b.groups.CompareAndDelete(groupKey{g.stream.name, g.name}, g)
	return rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", g.name, g.stream.name)
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, streamName, name string, config rheo.GroupConfig) error {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return err
	}
	cursors, err := b.startCursors(ctx, s, config.Start, config.Partitions)
	if err != nil {
		return err
	}
	starts, encoded := make([]int64, len(cursors)), make([][]byte, len(cursors))
	for i, p := range config.Partitions {
		starts[i] = cursors[p]
		if encoded[i], err = ledger.New(cursors[p]).MarshalBinary(); err != nil {
			return err
		}
	}
	var made int64
	err = b.trip(ctx, writing, func(batch *pgx.Batch) {
		batch.Queue(b.text(groupCreate), s.id, name, config.Partitions, config.MaxAttempts, string(config.Ordering),
			b.clock.parameter(), int64(math.MaxInt64), int64(math.MinInt64), starts, encoded).Exec(affected(&made))
	})
	if err == nil && made == 0 {
		err = rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, streamName)
	}
	return err
}

// startCursors resolves a start against the stream as it is now.
func (b *Backend) startCursors(ctx context.Context, s *stream, start rheo.Start, partitions []int) (map[int]int64, error) {
	highs := make(map[int32]int64)
	seek := func(context.Context, int) (int64, error) { return 0, nil }
	if start.Kind == rheo.StartKindEnd || start.Kind == rheo.StartKindTime {
		err := b.look(ctx, s, func(batch *pgx.Batch) {
			clear(highs)
			batch.Queue(b.text(highsOf), s.id).Query(intoMap(highs))
		})
		if err != nil {
			return nil, err
		}
		seek = func(ctx context.Context, p int) (first int64, err error) {
			err = b.trip(ctx, reading, func(batch *pgx.Batch) {
				first = highs[int32(p)] + 1
				batch.Queue(b.text(seekStatement), s.id, p, start.Time).QueryRow(seekRow(&first))
			})
			return first, err
		}
	}
	cursors := make(map[int]int64, len(partitions))
	for _, p := range partitions {
		cursor, err := delivery.StartCursor(ctx, start, p, highs[int32(p)], seek)
		if err != nil {
			return nil, err
		}
		cursors[p] = cursor
	}
	return cursors, nil
}

// seekRow reads the sequence found, if one was.
func seekRow(first *int64) func(pgx.Row) error {
	return func(row pgx.Row) error {
		if err := row.Scan(first); !noRows(err) {
			return err
		}
		return nil
	}
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, streamName string) ([]string, error) {
	s, err := b.stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	var list []string
	err = b.look(ctx, s, func(batch *pgx.Batch) {
		batch.Queue(b.text(groupList), s.id).Query(func(rows pgx.Rows) (err error) {
			list, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	return list, err
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, streamName, name string) (rheo.GroupInfo, error) {
	g, err := b.group(ctx, streamName, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	var info rheo.GroupInfo
	err = b.look(ctx, g.stream, func(batch *pgx.Batch) {
		info = rheo.GroupInfo{Stream: streamName, Group: name, MaxAttempts: g.plan.MaxAttempts, Ordering: g.ordering()}
		batch.Queue(b.text(groupInfo), g.id, b.clock.parameter()).Query(g.readInfo(&info))
	})
	if err == nil && len(info.Partitions) == 0 {
		return rheo.GroupInfo{}, b.groupGone(g)
	}
	return info, err
}

func (g *group) readInfo(info *rheo.GroupInfo) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var partition int
		var encoded []byte
		var high, micros, dead int64
		var oldest *time.Time
		_, err := pgx.ForEachRow(rows, []any{&info.CreatedAt, &partition, &encoded, &high, &micros, &oldest, &dead}, func() error {
			l, err := decode(encoded)
			if err != nil {
				return err
			}
			now := time.UnixMicro(micros)
			p := delivery.PartitionInfo(partition, l, high, g.plan.MaxRuns, now)
			if p.Lag > 0 && oldest != nil {
				p.OldestUnacked = max(0, now.Sub(*oldest))
			}
			info.CreatedAt = info.CreatedAt.UTC()
			info.Partitions = append(info.Partitions, p)
			info.DeadLetters += dead
			return nil
		})
		return err
	}
}
