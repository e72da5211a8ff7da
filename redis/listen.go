package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// listener waits, in blocking reads, for what other processes append to the streams
// that somebody watches, on connections apart from the host's.
type listener struct {
	mu      sync.Mutex
	watched map[string]*watched
	changed chan struct{} // there is one more; nil until the first
}

// watched is a stream that is listened to, and for a while longer when nobody watches
// it any more: who waits comes and goes.
type watched struct {
	watchers int
	idle     time.Time // since when there are none
}

// grace is that while.
const grace = time.Minute

// listen has the stream listened to until left is called.
func (b *Backend) listen(stream string) (left func()) {
	if b.options.WithoutBlockingReads || b.life.Err() != nil {
		return func() {}
	}
	l := &b.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed, l.watched = make(chan struct{}, 1), make(map[string]*watched)
		b.running.Run(b.keepListening)
	}
	w := l.watched[stream]
	if w == nil {
		w = new(watched)
		l.watched[stream] = w
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
	w.watchers++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.watchers--
		w.idle = time.Now()
	})
}

// current returns the streams to listen to.
func (l *listener) current() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, w := range l.watched {
		if w.watchers == 0 && time.Since(w.idle) > grace {
			delete(l.watched, name)
			continue
		}
		names = append(names, name)
	}
	return names
}

// keepListening goes on until Close. Where it cannot listen, those who wait poll.
func (b *Backend) keepListening() {
	const first, longest = 50 * time.Millisecond, 5 * time.Second
	pause := first
	for b.life.Err() == nil {
		began := time.Now()
		err := b.listenOnce(b.life, b.listener.current())
		if time.Since(began) > longest {
			pause = first
		}
		if err == nil {
			continue
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

// listenOnce listens to the streams until a connection is lost, or there is another
// stream.
func (b *Backend) listenOnce(ctx context.Context, names []string) error {
	var parts []part
	for _, name := range names {
		s, err := b.stream(ctx, name)
		if err != nil {
			return err
		}
		for p := range s.keys {
			parts = append(parts, part{s, p})
		}
	}
	if len(parts) == 0 {
		return b.pause(ctx)
	}
	highs, err := b.highs(ctx, parts)
	if err != nil {
		return err
	}
	ears := b.ears(parts, highs)
	client := b.blockingClient(len(ears))
	lost := make(chan error, len(ears))
	var reading sync.WaitGroup
	for _, e := range ears {
		reading.Go(func() { lost <- e.listen(ctx, b, client) })
	}
	for _, name := range names {
		b.hub(name).Wake() // what came while nobody listened
	}
	select {
	case err = <-lost:
	case <-b.listener.changed:
	case <-ctx.Done():
	}
	err = errors.Join(err, client.Close()) // it ends the reads
	reading.Wait()
	return err
}

// pause waits until there is something to listen to.
func (b *Backend) pause(ctx context.Context) error {
	select {
	case <-b.listener.changed:
	case <-ctx.Done():
	}
	return nil
}

// ear is one connection, and what it waits for.
type ear struct {
	parts []part
	keys  []string
	last  []int64 // by part: up to where events are known
}

// ears spreads the partitions over connections: on a single server one is enough, on a
// cluster a read cannot wait in two slots.
func (b *Backend) ears(parts []part, highs []int64) []*ear {
	_, alone := b.client.(*redis.Client)
	var all []*ear
	for i, p := range parts {
		if i == 0 || !alone {
			all = append(all, new(ear))
		}
		e := all[len(all)-1]
		e.parts = append(e.parts, p)
		e.keys = append(e.keys, p.stream.keys[p.partition].log)
		e.last = append(e.last, highs[i])
	}
	return all
}

// blockingClient is one like the host's, for that many reads at a time.
func (b *Backend) blockingClient(reads int) redis.UniversalClient {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if cluster, ok := b.client.(*redis.ClusterClient); ok {
		o := *cluster.Options()
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = reads, 0, 0, 0
		o.MaintNotificationsConfig = quiet
		return redis.NewClusterClient(&o)
	}
	o := *b.client.(*redis.Client).Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = reads, 0, 0, 0
	o.MaintNotificationsConfig, o.PushNotificationProcessor = quiet, nil
	return redis.NewClient(&o)
}

// listen passes hints on until the connection is lost.
func (e *ear) listen(ctx context.Context, b *Backend, client redis.UniversalClient) error {
	const block, gap = 5 * time.Second, 5 * time.Millisecond
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		found, err := client.XRead(ctx, e.question(block)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if len(found) == 0 {
			continue
		}
		highs, err := b.highs(ctx, e.parts)
		if err != nil {
			return err
		}
		for i, p := range e.parts {
			if highs[i] > e.last[i] {
				e.last[i] = highs[i]
				b.hub(p.stream.name).Wake()
			}
		}
		rest.Reset(gap) // a busy stream needs no hint for each event
		select {
		case <-rest.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *ear) question(block time.Duration) *redis.XReadArgs {
	args := &redis.XReadArgs{Streams: append([]string(nil), e.keys...), Count: 1, Block: block}
	for _, last := range e.last {
		args.Streams = append(args.Streams, receipt(last))
	}
	return args
}
