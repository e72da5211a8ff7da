package mongotest_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// prefixes gives every test case collections of its own in a shared database.
var prefixes atomic.Int64

func freshPrefix() string {
	return fmt.Sprintf("t%d_%d_", time.Now().UnixNano()%1_000_000, prefixes.Add(1))
}

// connect opens a client whose connections lead through the proxy; adjust may change
// its options.
func connect(tb testing.TB, p *proxy, adjust func(*options.ClientOptions)) *driver.Client {
	tb.Helper()
	uri := "mongodb://" + p.host() + "/?directConnection=true"
	if named := realURL(); named != "" {
		u, err := url.Parse(named)
		if err != nil {
			tb.Fatal(err)
		}
		q := u.Query()
		q.Del("replicaSet")
		q.Set("directConnection", "true")
		u.Host, u.RawQuery = p.host(), q.Encode()
		uri = u.String()
	}
	return connectTo(tb, uri, adjust)
}

func connectTo(tb testing.TB, uri string, adjust func(*options.ClientOptions)) *driver.Client {
	tb.Helper()
	o := options.Client().ApplyURI(uri)
	if adjust != nil {
		adjust(o)
	}
	client, err := driver.Connect(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			tb.Error(err)
		}
	})
	return client
}

// databaseName is the database that the tests share.
func databaseName() string {
	if u, err := url.Parse(realURL()); err == nil {
		if name := strings.Trim(u.Path, "/"); name != "" {
			return name
		}
	}
	return "rheo_test"
}

// newDatabase is the shared database through a proxy of the test's own.
func newDatabase(tb testing.TB) *driver.Database {
	tb.Helper()
	return connect(tb, newProxy(tb), nil).Database(databaseName())
}

// store is an instance on collections of its own, with their indexes.
type store struct {
	*rheo.Instance
	backend  *mongo.Backend
	database *driver.Database
	proxy    *proxy
	options  mongo.Options
}

func newStore(tb testing.TB, o mongo.Options) *store {
	tb.Helper()
	p := newProxy(tb)
	return openStore(tb, p, connect(tb, p, nil).Database(databaseName()), o)
}

func openStore(tb testing.TB, p *proxy, database *driver.Database, o mongo.Options) *store {
	tb.Helper()
	if o.Prefix == "" {
		o.Prefix = freshPrefix()
		dropAfter(tb, database, o.Prefix)
	}
	s := &store{proxy: p, database: database, options: o}
	s.backend = newBackend(tb, database, o)
	in, err := rheo.New(s.backend, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
	})
	s.Instance = in
	if err := in.EnsureSchema(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

func newBackend(tb testing.TB, database *driver.Database, o mongo.Options) *mongo.Backend {
	tb.Helper()
	b, err := mongo.New(database, &o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// dropAfter drops the prefix's collections on a server that stays.
func dropAfter(tb testing.TB, database *driver.Database, prefix string) {
	tb.Helper()
	if realURL() == "" {
		return
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 30*time.Second)
		defer cancel()
		names, err := database.ListCollectionNames(ctx, bson.D{})
		if err != nil {
			tb.Error(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				if err := database.Collection(name).Drop(ctx); err != nil {
					tb.Error(err)
				}
			}
		}
	})
}

// create makes a stream, and groups on it.
func (s *store) create(tb testing.TB, stream string, partitions int, groups ...string) {
	tb.Helper()
	if err := s.CreateStream(tb.Context(), stream, rheo.StreamConfig{Partitions: partitions}); err != nil {
		tb.Fatal(err)
	}
	for _, g := range groups {
		if err := s.CreateGroup(tb.Context(), stream, g, rheo.GroupConfig{}); err != nil {
			tb.Fatal(err)
		}
	}
}
