package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Server returns the URL of a PostgreSQL server on which databases can be made.
type Server func(context.Context) (url string, err error)

// database is one subject's own. Its name tells whose it is if it is left over.
type database struct {
	pool *pgxpool.Pool
	drop func() error
}

var databases atomic.Int64

const (
	// poolSize is enough for 64 callers with a connection each, and one that listens.
	poolSize     = 66
	dropPatience = 30 * time.Second
)

// openDatabase makes a database, which Close drops.
func openDatabase(ctx context.Context, server Server) (*database, error) {
	admin, err := server(ctx)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("rheo_bench_%d_%d", time.Now().UnixNano(), databases.Add(1))
	if err := command(ctx, admin, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	d := &database{drop: func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
		defer cancel()
		return command(ctx, admin, "DROP DATABASE "+name+" WITH (FORCE)")
	}}
	config, err := pgxpool.ParseConfig(admin)
	if err == nil {
		config.ConnConfig.Database = name
		config.MaxConns = poolSize
		d.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	}
	if err != nil {
		return nil, closing(err, d)
	}
	return d, nil
}

// command runs one statement on a connection of its own.
func command(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// Close ends the connections, and drops the database.
func (d *database) Close() error {
	if d.pool != nil {
		d.pool.Close()
	}
	return d.drop()
}

// LogPosition implements writesAhead.
func (d *database) LogPosition(ctx context.Context) (at int64, err error) {
	err = d.pool.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - '0/0')::bigint").Scan(&at)
	return at, err
}

// settled polls until the query, which asks whether anything is left to settle,
// says no.
func (d *database) settled(ctx context.Context, query string) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		var left bool
		if err := d.pool.QueryRow(ctx, query).Scan(&left); err != nil || !left {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
