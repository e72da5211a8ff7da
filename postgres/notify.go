package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifier tells other processes. It does so after the append, in a transaction
// of its own that waits for no flush: PostgreSQL commits transactions that notify
// one after the other, and theirs would be flushed one after the other.
type notifier struct {
	mu      sync.Mutex
	busy    bool
	streams map[string]struct{} // to be told of
}

// notifyGap is how often this process notifies at most.
const notifyGap = 5 * time.Millisecond

var notifyStatement = statement(`SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`)

func (b *Backend) tellOthers(stream string) {
	if b.options.WithoutNotify {
		return
	}
	n := &b.notifier
	n.mu.Lock()
	if n.streams == nil {
		n.streams = make(map[string]struct{})
	}
	n.streams[stream] = struct{}{}
	start := !n.busy && b.life.Err() == nil
	n.busy = n.busy || start
	n.mu.Unlock()
	if start {
		b.running.Run(b.notify)
	}
}

// notify goes on while there is something to tell.
func (b *Backend) notify() {
	ctx, cancel := context.WithCancel(b.life)
	defer cancel()
	gap := time.NewTimer(0)
	defer gap.Stop()
	for streams := b.notifier.take(); len(streams) > 0; streams = b.notifier.take() {
		select {
		case <-gap.C:
		case <-b.life:
			return
		}
		_ = b.tripOnce(ctx, reading, func(batch *pgx.Batch) { // a hint may be lost
			for stream := range streams {
				batch.Queue(b.text(notifyStatement), b.names.channel(), hintEvents+":"+stream)
			}
		})
		gap.Reset(notifyGap)
	}
}

func (n *notifier) take() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	streams := n.streams
	n.streams = nil
	n.busy = len(streams) > 0
	return streams
}
