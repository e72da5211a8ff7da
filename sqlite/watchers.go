package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/rheo-go/rheo/wake"
)

// watchers are those who wait for a stream, by its name. As long as there are any,
// one goroutine looks for what other processes do.
type watchers struct {
	db       *sql.DB
	texts    statements
	interval time.Duration

	mu      sync.Mutex
	watched map[string]*watched
	closed  bool
	fresh   bool // a stream is watched whose hint has not been read yet
	polling *polling
}

// polling is a goroutine that polls.
type polling struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// end stops it, and returns when it has ended.
func (p *polling) end() {
	if p != nil {
		p.stop()
		<-p.ended
	}
}

type watched struct {
	hub   wake.Hub
	count int
	seen  int64 // the hint that was read last, less what this process has done
	ours  int64
}

// unseen is no hint: the first that is read counts as news, since something may
// have come between the watch and that.
const unseen = -1

func (w *watchers) watch(stream string) (hints <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return make(chan struct{}), func() {}
	}
	on := w.watched[stream]
	if on == nil {
		if w.watched == nil {
			w.watched = make(map[string]*watched)
		}
		on = &watched{seen: unseen}
		w.watched[stream] = on
		w.fresh = true
	}
	on.count++
	w.start()
	hints, unwatch := on.hub.Watch()
	return hints, sync.OnceFunc(func() {
		unwatch()
		w.leave(stream, on)
	})
}

// start begins to poll, unless that is under way or of no use. A pool of one
// connection has none to spare.
func (w *watchers) start() {
	if w.polling != nil || w.interval < 0 || w.db.Stats().MaxOpenConnections == 1 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // rheo.Waiter has no ctx; the last watcher's stop ends it
	p := &polling{stop: cancel, ended: make(chan struct{})}
	w.polling = p
	go func() {
		defer close(p.ended)
		w.poll(ctx)
	}()
}

func (w *watchers) leave(stream string, on *watched) {
	w.mu.Lock()
	on.count--
	if on.count == 0 && w.watched[stream] == on {
		delete(w.watched, stream)
	}
	var idle *polling
	if len(w.watched) == 0 {
		idle, w.polling = w.polling, nil
	}
	w.mu.Unlock()
	idle.end()
}

func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	clear(w.watched)
	p := w.polling
	w.polling = nil
	w.mu.Unlock()
	p.end()
}

// appended tells of n events that this process has appended.
func (w *watchers) appended(s *stream, n int64) {
	if n > 0 {
		w.tell(s, n)
	}
}

// signalled tells of deliveries that this process has made available again.
func (w *watchers) signalled(s *stream) { w.tell(s, 1) }

func (w *watchers) tell(s *stream, n int64) {
	w.mu.Lock()
	on := w.watched[s.name]
	if on != nil {
		on.ours += n
	}
	w.mu.Unlock()
	if on != nil {
		on.hub.Wake()
	}
}

// poll keeps one connection, since PRAGMA data_version tells only whether anything
// has changed since the same connection asked before. It looks no further while
// nothing has.
func (w *watchers) poll(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := w.db.Conn(ctx); err == nil {
			s := &session{q: conn, texts: w.texts, prepares: true}
			w.pollOn(ctx, s)
			s.close()
			_ = conn.Close() // it goes back to the pool, whatever it says
		}
		const afterFailure = time.Second
		_ = sleep(ctx, afterFailure) // the loop looks at ctx
	}
}

// pollOn returns if the connection fails, or ctx ends.
func (w *watchers) pollOn(ctx context.Context, s *session) {
	before := int64(-1)
	for {
		var version int64
		if _, err := s.one(ctx, "data-version", []any{&version}); err != nil && !isBusy(err) {
			return
		}
		if (w.takeFresh() || version != before) && w.look(ctx, s) {
			before = version
		}
		if sleep(ctx, w.interval) != nil {
			return
		}
	}
}

func (w *watchers) takeFresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.fresh
	w.fresh = false
	return fresh
}

// look wakes the watchers of the streams in which others have done something. It
// returns false if it has to be done again.
func (w *watchers) look(ctx context.Context, s *session) bool {
	w.mu.Lock()
	ours := make(map[string]int64, len(w.watched))
	for stream, on := range w.watched {
		ours[stream] = on.ours
	}
	w.mu.Unlock()
	for stream, n := range ours {
		var hint int64
		if _, err := s.one(ctx, "hint", []any{&hint}, stream); err != nil {
			return false
		}
		w.saw(stream, hint-n)
	}
	return true
}

func (w *watchers) saw(stream string, hint int64) {
	w.mu.Lock()
	on := w.watched[stream]
	news := on != nil && on.seen != hint
	if on != nil {
		on.seen = hint
	}
	w.mu.Unlock()
	if news {
		on.hub.Wake()
	}
}
