package mongotest_test

import (
	"sync"
	"sync/atomic"
	"testing"

	driver "go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/mongo"
)

// scale keeps the suite quick on a server that reads whole collections.
const scale = 0.03

// conformance runs each case on collections of its own.
func conformance(t *testing.T, o mongo.Options) backendtest.Config {
	t.Helper()
	var databases [len(servers)]*driver.Database
	for i := range databases {
		databases[i] = newDatabase(t)
	}
	type place struct {
		database *driver.Database
		options  mongo.Options
	}
	var opened sync.Map // backend → place, to open the same collections again
	var next atomic.Int64
	open := func(t *testing.T, p place) rheo.Backend {
		t.Helper()
		b := newBackend(t, p.database, p.options)
		opened.Store(b, p)
		return b
	}
	again := func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
		t.Helper()
		found, _ := opened.Load(b)
		p := found.(place)
		p.options.Clock = clock
		return open(t, p)
	}
	c := backendtest.Config{
		Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
			t.Helper()
			p := place{databases[next.Add(1)%int64(len(databases))], o}
			p.options.Prefix, p.options.Clock = freshPrefix(), clock
			dropAfter(t, p.database, p.options.Prefix)
			return open(t, p)
		},
		Reopen: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, b, clock)
		},
		Join: again,
	}
	if realURL() == "" {
		c.Scale = scale
	}
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	config := conformance(t, mongo.Options{PayloadIndex: true})
	backendtest.Run(t, config)
	backendtest.RunModel(t, config)
}
