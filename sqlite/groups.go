package sqlite

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// group is what never changes of a group, and where its fetches of this process
// are.
type group struct {
	id        int64
	name      string
	stream    *stream
	config    rheo.GroupConfig
	plan      delivery.Group
	createdAt time.Time
	turn      atomic.Uint64
	quiet     atomic.Bool // the last fetch found nothing
}

type groupName struct{ stream, group string }

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, stream, name string, config rheo.GroupConfig) error {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return err
	}
	return b.writer.do(ctx, func(ctx context.Context, tx *transaction) error {
		if found, err := findGroup(ctx, tx.session, s, name); err != nil {
			return err
		} else if found != nil {
			return rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, stream)
		}
		cursors, err := s.startCursors(ctx, tx, config.Start, config.Partitions)
		if err != nil {
			return err
		}
		return b.insertGroup(ctx, tx, &group{name: name, stream: s, config: config}, cursors)
	})
}

// startCursors resolves a start in each of the partitions.
func (s *stream) startCursors(ctx context.Context, tx *transaction, start rheo.Start, partitions []int) ([]int64, error) {
	cursors := make([]int64, len(partitions))
	seek := s.seek(tx, start.Time)
	for i, p := range partitions {
		mark, err := tx.high(ctx, s.log(p))
		if err != nil {
			return nil, err
		}
		if cursors[i], err = delivery.StartCursor(ctx, start, p, mark.high, seek); err != nil {
			return nil, err
		}
	}
	return cursors, nil
}

func (b *Backend) insertGroup(ctx context.Context, tx *transaction, g *group, cursors []int64) error {
	tx.changes++
	_, err := tx.one(ctx, "create-group", []any{&g.id},
		g.stream.id, g.name, g.config.MaxAttempts, string(g.config.Ordering), b.now().UnixMicro())
	if err != nil {
		return err
	}
	for i, p := range g.config.Partitions {
		state, err := ledger.New(cursors[i]).MarshalBinary()
		if err != nil {
			return err
		}
		_, err = tx.write(ctx, "create-ledger", g.id, p, g.stream.log(p), cursors[i], newRevision(), cursors[i], ledger.New(0).Due(), state)
		if err != nil {
			return err
		}
	}
	return nil
}

// findGroup returns nil if the stream has none of that name.
func findGroup(ctx context.Context, session *session, s *stream, name string) (*group, error) {
	g := &group{name: name, stream: s}
	var ordering string
	var created int64
	found, err := session.one(ctx, "group", []any{&g.id, &g.config.MaxAttempts, &ordering, &created}, s.id, name)
	if err != nil || !found {
		return nil, err
	}
	g.config.Ordering = rheo.Ordering(ordering)
	g.createdAt = time.UnixMicro(created).UTC()
	err = session.each(ctx, "group-partitions", func(rows *sql.Rows) error {
		var p int
		err := rows.Scan(&p)
		g.config.Partitions = append(g.config.Partitions, p)
		return err
	}, g.id)
	g.plan = delivery.GroupOf(g.config)
	return g, err
}

func (b *Backend) group(ctx context.Context, stream, name string) (*group, error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	key := groupName{stream, name}
	if known, ok := b.groups.Load(key); ok {
		return known.(*group), nil
	}
	g, err := findGroup(ctx, b.reader(ctx), s, name)
	if err != nil {
		return nil, failure(reading, err)
	}
	if g == nil {
		return nil, rheo.Errorf(rheo.ErrGroupNotFound, "%q on stream %q; create it first", name, stream)
	}
	known, _ := b.groups.LoadOrStore(key, g)
	return known.(*group), nil
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, stream string) ([]string, error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	var found []string
	err = b.pool.each(ctx, "groups", func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		found = append(found, name)
		return err
	}, s.id)
	return found, failure(reading, err)
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, stream, name string) (rheo.GroupInfo, error) {
	g, err := b.group(ctx, stream, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	info := rheo.GroupInfo{
		Stream: stream, Group: name, CreatedAt: g.createdAt,
		MaxAttempts: g.config.MaxAttempts, Ordering: g.config.Ordering,
	}
	now := b.now()
	if info.Partitions, err = b.partitionInfos(ctx, g, now); err != nil {
		return rheo.GroupInfo{}, err
	}
	for i := range info.Partitions {
		if err := b.addOldest(ctx, g, &info.Partitions[i], now); err != nil {
			return rheo.GroupInfo{}, err
		}
	}
	_, err = b.pool.one(ctx, "count-dead", []any{&info.DeadLetters}, g.id)
	return info, failure(reading, err)
}

// partitionInfos reads ledgers and high watermarks as of one moment.
func (b *Backend) partitionInfos(ctx context.Context, g *group, now time.Time) ([]rheo.PartitionInfo, error) {
	var infos []rheo.PartitionInfo
	err := b.pool.each(ctx, "ledgers", func(rows *sql.Rows) error {
		var p int
		var state []byte
		var high int64
		if err := rows.Scan(&p, &state, &high); err != nil {
			return err
		}
		l, err := decode(state, g, p)
		if err == nil {
			infos = append(infos, delivery.PartitionInfo(p, l, high, 0, now))
		}
		return err
	}, g.id)
	return infos, failure(reading, err)
}

// addOldest adds the age of the event just above the frontier.
func (b *Backend) addOldest(ctx context.Context, g *group, info *rheo.PartitionInfo, now time.Time) error {
	if info.Lag == 0 {
		return nil
	}
	events, err := g.stream.events(ctx, b.pool, info.Partition, info.Frontier, info.Frontier+1, 1)
	if err != nil {
		return failure(reading, err)
	}
	for i := range events {
		info.OldestUnacked = max(0, now.Sub(events[i].Timestamp))
	}
	return nil
}
