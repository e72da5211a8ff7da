package mongotest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// fails checks that the error is of that kind and says so.
func fails(t *testing.T, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, want one that wraps %q and says %q", err, kind, says)
	}
}

func (s *store) log() *driver.Collection { return s.database.Collection(s.options.Prefix + "log") }

func (s *store) drop(t *testing.T, index string) {
	t.Helper()
	if err := s.log().Indexes().DropOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
}

// beside opens the same collections as another process would.
func (s *store) beside(t *testing.T) *rheo.Instance {
	t.Helper()
	in, err := rheo.New(newBackend(t, s.database, s.options), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// besideProxy does so through a proxy of its own.
func (s *store) besideProxy(t *testing.T) *store {
	t.Helper()
	p := s.proxy.another(t)
	return openStore(t, p, connect(t, p, nil).Database(databaseName()), s.options)
}

// TestEnsureSchemaMakesAll: what Indexes lists is there afterwards, and a second
// call makes nothing.
func TestEnsureSchemaMakesAll(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{PayloadIndex: true})
	all, err := mongo.Indexes(&s.options)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range all {
		there, err := s.database.Collection(want.Collection).Indexes().ListSpecifications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, i := range there {
			found = found || i.Name == want.Name && want.Unique == (i.Unique != nil && *i.Unique)
		}
		if !found {
			t.Errorf("%s lacks the index %s", want.Collection, want.Name)
		}
	}
	s.proxy.takeCounts()
	if err := s.EnsureSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.proxy.takeCounts()["createIndexes"]; n > 0 {
		t.Errorf("the second call made %d indexes", n)
	}
}

// TestDroppedUniqueIndex: EnsureSchema makes it again, and until then no process
// that starts appends.
func TestDroppedUniqueIndex(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1, "g")
	s.append(t, "s", on(0, "a")...)
	s.drop(t, "place")
	other := s.beside(t)
	_, err := other.Append(t.Context(), "s", on(0, "b")...)
	fails(t, err, rheo.ErrFailed, "unique index")
	if err := other.EnsureSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Append(t.Context(), "s", on(0, "b")...); err != nil {
		t.Fatal(err)
	}
	expectIDs(t, "log", whole(t, s, "s", 0), []string{"a", "b"})
}

// TestIndexThatIsNotUnique: one under the same name does not pass for it.
func TestIndexThatIsNotUnique(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.drop(t, "place")
	keys := bson.D{{Key: "stream", Value: 1}, {Key: "partition", Value: 1}, {Key: "first", Value: 1}}
	if _, err := s.log().Indexes().CreateOne(t.Context(), driver.IndexModel{Keys: keys, Options: options.Index().SetName("place")}); err != nil {
		t.Fatal(err)
	}
	fails(t, s.EnsureSchema(t.Context()), rheo.ErrFailed, "drop it")
	s.create(t, "s", 1)
	_, err := s.beside(t).Append(t.Context(), "s", on(0, "a")...)
	fails(t, err, rheo.ErrFailed, "drop it")
}

// TestDoubledPlace: two documents for one place, which only a log without its index
// can come to hold, are an error of EnsureSchema.
func TestDoubledPlace(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.drop(t, "place")
	for _, id := range []string{"x", "y"} {
		d := bson.D{{Key: "_id", Value: id}, {Key: "stream", Value: "s"}, {Key: "partition", Value: 0}, {Key: "first", Value: int64(1)}}
		if _, err := s.log().InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, s.EnsureSchema(t.Context()), rheo.ErrFailed, "")
}

func TestWithoutSchema(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := &store{database: connect(t, p, nil).Database(databaseName()), options: mongo.Options{Prefix: freshPrefix()}}
	dropAfter(t, s.database, s.options.Prefix)
	in := s.beside(t)
	if _, err := in.StreamInfo(t.Context(), "s"); !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Errorf("an unknown stream: %v", err)
	}
	if err := in.CreateStream(t.Context(), "s", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	_, err := in.Append(t.Context(), "s", rheo.Event{})
	fails(t, err, rheo.ErrFailed, "EnsureSchema")
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	change := bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: 99}}}}
	if _, err := s.database.Collection(s.options.Prefix+"schema").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "version"}}, change); err != nil {
		t.Fatal(err)
	}
	fails(t, s.beside(t).EnsureSchema(t.Context()), rheo.ErrFailed, "99")
}

// TestRestored: the log is put back under a process that remembers more of it.
func TestRestored(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 2, "g")
	for _, id := range []string{"a", "b", "c", "d"} {
		s.append(t, "s", append(on(0, id), on(1, id)...)...)
	}
	behind := bson.D{{Key: "stream", Value: "s"}, {Key: "first", Value: bson.D{{Key: "$gt", Value: int64(2)}}}}
	if _, err := s.log().DeleteMany(t.Context(), behind); err != nil {
		t.Fatal(err)
	}
	s.append(t, "s", on(0, "e")...)
	s.append(t, "s", on(1, "f")...)
	expectIDs(t, "partition 0", whole(t, s, "s", 0), []string{"a", "b", "e"})
	expectIDs(t, "partition 1", whole(t, s, "s", 1), []string{"a", "b", "f"})
	leases := s.fetch(t, "s", leaseTime)
	if len(leases) != 6 || leases[2].ID != "e" && leases[2].ID != "f" {
		t.Errorf("the leases are %v", leases)
	}
}

// TestDeletedGroup: a group that somebody has deleted by hand is not brought back
// by a process that remembers it.
func TestDeletedGroup(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1, "g")
	s.append(t, "s", on(0, "a")...)
	for _, name := range []string{"groups", "ledgers"} {
		if _, err := s.database.Collection(s.options.Prefix+name).DeleteMany(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Fetch(t.Context(), "s", "g", rheo.FetchOptions{})
	fails(t, err, rheo.ErrGroupNotFound, "create it first")
	if err := s.CreateGroup(t.Context(), "s", "g", rheo.GroupConfig{}); err != nil {
		t.Fatal(err)
	}
	if leases := s.fetch(t, "s", leaseTime); len(leases) != 1 {
		t.Errorf("there are %d leases", len(leases))
	}
}

// TestLostLedgers: a group whose process died between making it and its ledgers is
// complete.
func TestLostLedgers(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 2)
	s.append(t, "s", append(on(0, "a", "b"), on(1, "c")...)...)
	inserts := 0
	s.proxy.judged(func(command string) fate {
		if command == "insert" {
			inserts++
		}
		if inserts > 1 {
			return loseRequest
		}
		return pass
	})
	if err := s.CreateGroup(t.Context(), "s", "g", rheo.GroupConfig{Start: rheo.StartAfter(1)}); err != nil {
		t.Fatal(err)
	}
	s.proxy.judged(nil)
	if n, err := s.database.Collection(s.options.Prefix+"ledgers").CountDocuments(t.Context(), bson.D{}); err != nil || n > 0 {
		t.Fatalf("there are %d ledgers, %v", n, err)
	}
	leases := s.fetch(t, "s", leaseTime)
	if len(leases) != 1 || leases[0].ID != "b" {
		t.Errorf("the leases are %v", leases)
	}
	if err := s.ResetGroup(t.Context(), "s", "g", rheo.ResetOptions{Confirm: true}); err != nil {
		t.Fatal(err)
	}
	expectLag(t, s, "s", 1)
}

// TestCanceledWhileWaiting: an append that waits for its turn ends with its context,
// having appended nothing; the one under way goes on.
func TestCanceledWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1)
	s.append(t, "s", on(0, "a")...)
	held, release := make(chan struct{}), make(chan struct{})
	s.proxy.judged(func(command string) fate {
		if command == "insert" {
			s.proxy.judged(nil)
			close(held)
			<-release
		}
		return pass
	})
	first := make(chan error)
	go func() {
		_, err := s.Append(t.Context(), "s", on(0, "b")...)
		first <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Append(ctx, "s", on(0, "c")...)
	fails(t, err, rheo.ErrUnavailable, "waited for its turn")
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	expectIDs(t, "log", whole(t, s, "s", 0), []string{"a", "b"})
}
