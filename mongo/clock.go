package mongo

import (
	"context"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/rheo-go/rheo"
)

// storeClock tells the store's time, which is the server's. Between two answers
// that carried it, it is the last one plus the time that has passed here since: two
// hosts' clocks are never compared.
type storeClock struct {
	override rheo.Clock // tests
	last     atomic.Pointer[sample]
	asking   atomic.Bool
}

// sample is what the server's clock said at a moment here.
type sample struct {
	here  time.Time // with its monotonic reading
	store time.Time
}

// A sample older than fresh is replaced while it is still used; one older than
// stale is not used, so that what the two clocks drift apart stays small, and a
// failover to another host is noticed.
const (
	fresh = 10 * time.Second
	stale = time.Minute
)

// deployment is what the server has said about itself.
type deployment struct{ last atomic.Pointer[helloReply] }

type helloReply struct {
	LocalTime time.Time `bson:"localTime"`
	SetName   string    `bson:"setName"`
	Message   string    `bson:"msg"`
}

// cluster reports whether it is a replica set or a sharded cluster, which have
// change streams and transactions.
func (h *helloReply) cluster() bool { return h.SetName != "" || h.Message == "isdbgrid" }

// hello asks the primary what it is and what time it has.
func (b *Backend) hello(ctx context.Context) (*helloReply, error) {
	reply := new(helloReply)
	sent := time.Now()
	err := b.database.RunCommand(withoutSession(ctx), bson.D{{Key: "hello", Value: 1}},
		options.RunCmd().SetReadPreference(readpref.Primary())).Decode(reply)
	if err != nil {
		return nil, b.failure(err, reading)
	}
	b.clock.last.Store(&sample{here: sent.Add(time.Since(sent) / 2), store: reply.LocalTime.UTC()})
	b.server.last.Store(reply)
	return reply, nil
}

// isCluster asks once.
func (b *Backend) isCluster(ctx context.Context) (bool, error) {
	reply := b.server.last.Load()
	if reply == nil {
		var err error
		if reply, err = b.hello(ctx); err != nil {
			return false, err
		}
	}
	return reply.cluster(), nil
}

// now returns the store's time, asking for it only if nothing has told it lately.
func (b *Backend) now(ctx context.Context) (time.Time, error) {
	if b.clock.override != nil {
		return b.clock.override.Now().UTC().Truncate(time.Microsecond), nil
	}
	last := b.clock.last.Load()
	if last == nil || time.Since(last.here) > stale {
		if _, err := b.hello(ctx); err != nil {
			return time.Time{}, err
		}
		last = b.clock.last.Load()
	}
	since := time.Since(last.here)
	if since > fresh {
		b.askTheTime()
	}
	return last.store.Add(since).Truncate(time.Microsecond), nil
}

// askTheTime does so beside the call that has found the last answer old.
func (b *Backend) askTheTime() {
	if b.clock.asking.Swap(true) || b.life.Err() != nil {
		return
	}
	b.running.Run(func() {
		defer b.clock.asking.Store(false)
		ctx, cancel := context.WithTimeout(b.life, fresh)
		defer cancel()
		_, _ = b.hello(ctx) // whoever needs the time once it is stale asks again
	})
}
