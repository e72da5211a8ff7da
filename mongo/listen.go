package mongo

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo/wake"
)

// listener is the change stream by which appends of other processes are noticed. It
// is opened for the first who waits, where the deployment has them, and opened again
// whenever it is lost; meanwhile those who wait poll.
type listener struct{ start sync.Once }

func (b *Backend) listen() {
	if b.options.WithoutChangeStream {
		return
	}
	b.listener.start.Do(func() {
		if b.life.Err() == nil {
			b.running.Run(b.keepListening)
		}
	})
}

func (b *Backend) keepListening() {
	ctx, cancel := context.WithCancel(b.life)
	defer cancel()
	const first, longest = 50 * time.Millisecond, 5 * time.Second
	for pause := first; b.life.Err() == nil; pause = min(2*pause, longest) {
		began := time.Now()
		if cluster, err := b.isCluster(ctx); err == nil && !cluster {
			return
		} else if err == nil {
			_ = b.listenOnce(ctx) // what went wrong will, or will not, again
		}
		if time.Since(began) > longest {
			pause = first
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-b.life:
		}
		timer.Stop()
	}
}

// listenOnce listens until the change stream is lost.
func (b *Backend) listenOnce(ctx context.Context) error {
	changes, err := b.collections.log.Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: "insert"}}}},
		{{Key: "$project", Value: bson.D{{Key: "fullDocument.stream", Value: 1}}}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close(context.WithoutCancel(ctx)) }()
	b.wakeAll() // what came while nobody listened
	for changes.Next(ctx) {
		var change struct {
			Document struct {
				Stream string `bson:"stream"`
			} `bson:"fullDocument"`
		}
		if err := changes.Decode(&change); err != nil {
			return err
		}
		b.hub(change.Document.Stream).Wake()
	}
	return changes.Err()
}

func (b *Backend) wakeAll() {
	b.hubs.Range(func(_, hub any) bool {
		hub.(*wake.Hub).Wake()
		return true
	})
}
