package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var pendingAdd = load("pending_add")

// AppendTx appends to a stream of the instance, whose backend must be a [Backend],
// in the host's own transaction on the same database: the events are in the log if
// and only if it commits, and nobody sees them before. It is otherwise
// [rheo.Instance.Append], but for two things that come from this: that no
// transaction waits for another's end, neither those that append to the same
// partition nor those that read.
//
//   - The events get their sequences after the commit, when somebody next looks at
//     the stream; in the results they are 0. Their order within the transaction is
//     kept.
//   - An ID that the partition holds already is dropped then, without a word.
//
// On an error the transaction is PostgreSQL's usual aborted one: roll it back, or
// back to a savepoint.
func AppendTx(ctx context.Context, in *rheo.Instance, tx pgx.Tx, stream string, events ...rheo.Event) ([]rheo.AppendResult, error) {
	ctx, err := withHostTx(ctx, in, tx)
	if err != nil {
		return nil, err
	}
	return in.Append(ctx, stream, events...)
}

// SettleTx settles deliveries of one group in the host's own transaction, so that
// what a handler has written there and its ack are one: both are committed, or
// neither. It is otherwise [rheo.Instance.Settle]; the store fences here and now,
// and where an item's result is [rheo.ErrStaleLease] somebody else has the event
// meanwhile, and the host should roll back.
//
// From here to its end the transaction holds the group's ledgers of the partitions
// concerned, and with them everybody who fetches or settles there. So make it the
// last statement before the commit.
func SettleTx(ctx context.Context, in *rheo.Instance, tx pgx.Tx, settlements ...rheo.Settlement) ([]error, error) {
	ctx, err := withHostTx(ctx, in, tx)
	if err != nil {
		return nil, err
	}
	return in.Settle(ctx, settlements...)
}

// hostTxKey is for the context that brings a host's transaction through the
// Instance, whose checks and defaults are the same for all calls.
type hostTxKey struct{}

func withHostTx(ctx context.Context, in *rheo.Instance, tx pgx.Tx) (context.Context, error) {
	if _, ours := in.Backend().(*Backend); !ours {
		return nil, rheo.Errorf(rheo.ErrUnsupported, "the instance's backend is a %T, not a PostgreSQL backend", in.Backend())
	}
	if tx == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "tx must not be nil")
	}
	return context.WithValue(ctx, hostTxKey{}, tx), nil
}

func hostTx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(hostTxKey{}).(pgx.Tx)
	return tx
}

// putAside is Append in the host's transaction. Nothing in it waits for anybody:
// the table has no unique index, and no partition is locked.
func (b *Backend) putAside(ctx context.Context, s *stream, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	if len(r.Expected) > 0 {
		return nil, rheo.Errorf(rheo.ErrUnsupported, "an append in the host's transaction gets its sequences later, and cannot expect one")
	}
	rows := newColumns(len(r.Events))
	results := make([]rheo.AppendResult, len(r.Events))
	for i := range r.Events {
		if err := rows.add(&r.Events[i]); err != nil {
			return nil, err
		}
		results[i].Event = r.Events[i]
	}
	err := b.trip(ctx, reading, func(batch *pgx.Batch) { // reading: the host commits
		batch.Queue(b.text(pendingAdd), append([]any{s.id}, rows.arguments()...)...)
		if !b.options.WithoutNotify {
			batch.Queue("SELECT pg_notify($1::text, $2::text)", b.names.channel(), hintPending+":"+s.name)
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// performIn does a change in the host's transaction, under the locks of the
// ledgers' rows. What comes of it is not remembered: the host may roll back.
func (b *Backend) performIn(ctx context.Context, c change) error {
	if len(c.partitions) == 0 {
		return nil
	}
	var rows []row
	err := b.trip(ctx, reading, func(batch *pgx.Batch) {
		batch.Queue(b.text(ledgerLock), c.group.stream.id, c.group.id, c.partitions).Query(intoRows(&rows))
	})
	if err != nil {
		return err
	}
	if len(rows) < len(c.partitions) {
		return b.groupGone(c.group)
	}
	swaps, err := c.applyTo(rows)
	if err != nil || len(swaps) == 0 {
		return err
	}
	return b.trip(ctx, reading, func(batch *pgx.Batch) {
		for i := range swaps {
			b.queueSwap(batch, ledgerSwap, c.group, &swaps[i])
		}
	})
}
