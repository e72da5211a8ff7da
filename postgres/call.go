package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxTries bounds how often statements are sent again because PostgreSQL found
// them in a deadlock or could not serialise them.
const maxTries = 20

// trip sends the statements that build queues in one round trip, as one
// transaction without BEGIN and COMMIT: a pipeline up to its one Sync is one. The
// queued statements' functions take the answers. It may be done more than once.
//
// A context that brings the host's transaction has it done there, once.
func (b *Backend) trip(ctx context.Context, i intent, build func(*pgx.Batch)) error {
	if tx := hostTx(ctx); tx != nil {
		batch := new(pgx.Batch)
		build(batch)
		return b.failure(tx.SendBatch(ctx, batch).Close(), i)
	}
	for try := 1; ; try++ {
		err := b.tripOnce(ctx, i, build)
		if try == maxTries || !again(err) {
			return b.failure(err, i)
		}
	}
}

func (b *Backend) tripOnce(ctx context.Context, i intent, build func(*pgx.Batch)) error {
	conn, err := b.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	batch := new(pgx.Batch)
	build(batch)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		if again(err) {
			return err
		}
		return b.failure(err, i)
	}
	return nil
}

func (b *Backend) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return conn, nil
}

// A turn is the second half of a transaction: it looks at what the first half
// has read and queues what is to be written.
type turn func(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) error

// transact makes a transaction of two round trips: the statements that first
// queues, which lock and read; and those that then queues, which write. If then
// queues none, or fails, it is rolled back. It may be done more than once.
func (b *Backend) transact(ctx context.Context, first func(*pgx.Batch), then turn) error {
	for try := 1; ; try++ {
		err := b.transactOnce(ctx, first, then)
		if try == maxTries || !again(err) {
			return b.failure(err, writing)
		}
	}
}

// begin also has the server end a transaction whose process stands still between
// the two halves: its locks would hold up others.
const begin = `SELECT set_config('idle_in_transaction_session_timeout', '10s', true), set_config('enable_seqscan', 'off', true)`

func (b *Backend) transactOnce(ctx context.Context, first func(*pgx.Batch), then turn) error {
	conn, err := b.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	batch := new(pgx.Batch)
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue(begin)
	first(batch)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return b.undo(ctx, conn, err)
	}
	batch = new(pgx.Batch)
	if err := then(ctx, conn.Conn(), batch); err != nil || batch.Len() == 0 {
		return b.undo(ctx, conn, err)
	}
	batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		if again(err) {
			return b.undo(ctx, conn, err)
		}
		return b.undo(ctx, conn, b.failure(err, writing))
	}
	return nil
}

// undo rolls back. Whatever becomes of that, nothing of the transaction stays; a
// connection on which it fails is not returned to the pool.
func (b *Backend) undo(ctx context.Context, conn *pgxpool.Conn, err error) error {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		if _, rollback := conn.Exec(ctx, "ROLLBACK"); rollback != nil && err == nil {
			err = rollback
		}
	}
	if err == nil || again(err) {
		return err
	}
	return b.failure(err, reading)
}

// queryer runs one statement: a pool's connection, or the host's transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
