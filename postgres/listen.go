package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rheo-go/rheo/wake"
)

// listener is the connection on which other processes' hints come in. It is
// opened for the first who waits, apart from the pool, and opened again whenever
// it is lost; meanwhile those who wait poll.
type listener struct{ start sync.Once }

// hintPending begins a notification about events that were put aside.
const hintPending, hintEvents = "p", "e"

func (b *Backend) listen() {
	if b.options.WithoutNotify {
		return
	}
	b.listener.start.Do(func() {
		if b.life.Err() == nil {
			b.running.Run(b.keepListening)
		}
	})
}

func (b *Backend) keepListening() {
	const first, longest = 50 * time.Millisecond, 5 * time.Second
	pause := first
	for b.life.Err() == nil {
		began := time.Now()
		_ = b.listenOnce(b.life) // what went wrong will, or will not, again
		if time.Since(began) > longest {
			pause = first
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-b.life:
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}

// listenOnce listens until the connection is lost.
func (b *Backend) listenOnce(ctx context.Context) error {
	config := b.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it may well be lost already
	}()
	if config.AfterConnect != nil {
		if err := config.AfterConnect(ctx, conn); err != nil {
			return err
		}
	}
	if err := conn.PgConn().Exec(ctx, "LISTEN "+pgx.Identifier{b.names.channel()}.Sanitize()).Close(); err != nil {
		return err
	}
	b.wakeAll() // what came while nobody listened
	for {
		n, err := b.nextNotification(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			b.hear(ctx, n.Payload)
		}
	}
}

// nextNotification waits for one. Where none comes for long, it makes sure that
// the connection is not one that only seems to be there, and returns nil.
func (b *Backend) nextNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	const quiet, patience = 30 * time.Second, 5 * time.Second
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	asking, done := context.WithTimeout(ctx, patience)
	defer done()
	return nil, conn.Ping(asking)
}

// hear passes a hint on. Events that were put aside are given their place first,
// so that whoever comes for them finds them.
func (b *Backend) hear(ctx context.Context, payload string) {
	kind, name, _ := strings.Cut(payload, ":")
	if kind == hintPending {
		if s, err := b.stream(ctx, name); err == nil {
			_ = b.place(ctx, s.id) // whoever fetches tries again
		}
	}
	b.hub(name).Wake()
}

func (b *Backend) wakeAll() {
	b.hubs.Range(func(_, hub any) bool {
		hub.(*wake.Hub).Wake()
		return true
	})
}
