package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/rheo-go/rheo"
)

// AppendTx appends to a stream of the instance, whose backend must be a [Backend],
// in the host's own transaction on the same database: the events are in the log
// if and only if the host commits, and nobody sees them before. It is otherwise
// [rheo.Instance.Append].
//
// SQLite has one writer at a time. The transaction becomes it with its first
// write, and holds up every other until it ends, so keep it short. Begin it as a
// writer: both common drivers do that for BeginTx if their data source name says
// _txlock=immediate. A transaction that has read first and finds, at its first
// write, that another connection has written since, can never write (SQLite's
// SQLITE_BUSY_SNAPSHOT); AppendTx then returns [rheo.ErrUnavailable] after some
// seconds at most, and the host rolls back and starts over.
//
// On an error nothing was appended, and the transaction is as it was. Calls on one
// transaction must not run at the same time.
func AppendTx(ctx context.Context, in *rheo.Instance, tx *sql.Tx, stream string, events ...rheo.Event) ([]rheo.AppendResult, error) {
	ctx, err := withHostTx(ctx, in, tx)
	if err != nil {
		return nil, err
	}
	return in.Append(ctx, stream, events...)
}

// AppendExpectingTx is [AppendTx] on a condition, as [rheo.Instance.AppendExpecting]
// has it.
func AppendExpectingTx(ctx context.Context, in *rheo.Instance, tx *sql.Tx, stream string, expected rheo.ExpectedSequence, events ...rheo.Event) ([]rheo.AppendResult, error) {
	ctx, err := withHostTx(ctx, in, tx)
	if err != nil {
		return nil, err
	}
	return in.AppendExpecting(ctx, stream, expected, events...)
}

// SettleTx settles deliveries of one group in the host's own transaction, so that
// what a handler has written there and its ack are one: both are committed, or
// neither. It is otherwise [rheo.Instance.Settle]; an item whose result is
// [rheo.ErrStaleLease] was taken by somebody else meanwhile, and the host should
// roll back. See [AppendTx] for how to begin the transaction.
func SettleTx(ctx context.Context, in *rheo.Instance, tx *sql.Tx, settlements ...rheo.Settlement) ([]error, error) {
	ctx, err := withHostTx(ctx, in, tx)
	if err != nil {
		return nil, err
	}
	return in.Settle(ctx, settlements...)
}

// hostPatience is how long a statement in the host's transaction waits for the
// write lock. It is bounded whatever the context: a transaction that has read may
// be what the other side waits for.
const hostPatience = 5 * time.Second

// hostTxKey is for the context that brings a host's transaction through the
// Instance, whose checks and defaults are the same for all calls.
type hostTxKey struct{}

func withHostTx(ctx context.Context, in *rheo.Instance, tx *sql.Tx) (context.Context, error) {
	if _, ours := in.Backend().(*Backend); !ours {
		return nil, rheo.Errorf(rheo.ErrUnsupported, "the instance's backend is a %T, not a SQLite backend", in.Backend())
	}
	if tx == nil {
		return nil, rheo.Errorf(rheo.ErrInvalid, "tx must not be nil")
	}
	return context.WithValue(ctx, hostTxKey{}, tx), nil
}

func hostTx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(hostTxKey{}).(*sql.Tx)
	return tx
}

// within runs f in the host's transaction, of which it leaves nothing behind if it
// fails.
func (b *Backend) within(ctx context.Context, host *sql.Tx, f func(context.Context, *transaction) error) error {
	s := &session{q: host, texts: b.pool.texts, patience: hostPatience}
	if _, err := s.exec(ctx, "savepoint"); err != nil {
		return failure(writing, err)
	}
	tx := newTransaction(s, nil)
	err := f(ctx, tx)
	if err == nil {
		err = tx.flush(ctx)
	}
	if err != nil {
		// If even this fails, SQLite has rolled the whole transaction back, and
		// the host's commit will say so.
		_, _ = s.exec(ctx, "rollback-to")
	}
	if _, released := s.exec(ctx, "release"); err == nil {
		err = released
	}
	return failure(writing, err)
}
