// Package postgres is the [rheo.Backend] on PostgreSQL 14 or later, over a
// [github.com/jackc/pgx/v5/pgxpool.Pool] of the host's.
//
//	pool, err := pgxpool.New(ctx, url)
//	backend, err := postgres.New(pool, nil)
//	instance, err := rheo.New(backend, nil)
//	err = instance.EnsureSchema(ctx)
//
// It is a log and its groups in ordinary tables: see sql/migrations. An append is
// one round trip, a fetch two, a settle and a renewal one, for batches of any
// size; appends that come while one is under way share the next transaction.
// [AppendTx] and [SettleTx] take part in a transaction of the host's.
//
// docs/guides/postgres.md has the set-up, poolers and what to watch.
package postgres
