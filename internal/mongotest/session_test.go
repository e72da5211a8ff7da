package mongotest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// cluster reports whether the server has transactions and change streams.
func (s *store) cluster(t *testing.T) bool {
	t.Helper()
	var reply struct {
		SetName string `bson:"setName"`
		Message string `bson:"msg"`
	}
	if err := s.database.RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return reply.SetName != "" || reply.Message == "isdbgrid"
}

func (s *store) session(t *testing.T) *driver.Session {
	t.Helper()
	session, err := s.database.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.EndSession(context.WithoutCancel(t.Context())) })
	return session
}

// TestSessionsUnsupported: a standalone server has no transactions.
func TestSessionsUnsupported(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	if s.cluster(t) {
		t.Skip("this server has transactions")
	}
	s.create(t, "s", 1, "g")
	s.append(t, "s", on(0, "a")...)
	l := s.fetch(t, "s", time.Minute)
	session := s.session(t)
	_, err := mongo.AppendSession(t.Context(), s.Instance, session, "s", on(0, "b")...)
	fails(t, err, rheo.ErrUnsupported, "standalone")
	_, err = mongo.SettleSession(t.Context(), s.Instance, session, acks(l)...)
	fails(t, err, rheo.ErrUnsupported, "standalone")
	expectIDs(t, "log", whole(t, s, "s", 0), []string{"a"})
	expectLag(t, s, "s", 1)
}

// TestSessions: what is appended and settled in a transaction is there if and only
// if it commits.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	if !s.cluster(t) {
		t.Skip("this server has no transactions; " + urlVariable + " may name a replica set")
	}
	s.create(t, "s", 1, "g")
	s.append(t, "s", on(0, "a", "b")...)
	leases := s.fetch(t, "s", time.Minute)
	orders := s.database.Collection(s.options.Prefix + "orders")
	session := s.session(t)
	failed := errors.New("the host thinks better of it")
	work := func(id string, lease *rheo.Lease, outcome error) error {
		_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if _, err := orders.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
				return nil, err
			}
			if _, err := mongo.AppendSession(ctx, s.Instance, session, "s", on(0, id)...); err != nil {
				return nil, err
			}
			results, err := mongo.SettleSession(ctx, s.Instance, session, rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck})
			if err := errors.Join(append(results, err)...); err != nil {
				return nil, err
			}
			return nil, outcome
		})
		return err
	}
	if err := work("c", leases[0], failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	expectIDs(t, "log after an abort", whole(t, s, "s", 0), []string{"a", "b"})
	expectLag(t, s, "s", 2)
	if err := work("c", leases[0], nil); err != nil {
		t.Fatal(err)
	}
	expectIDs(t, "log after a commit", whole(t, s, "s", 0), []string{"a", "b", "c"})
	expectLag(t, s, "s", 2)
	if err := work("d", leases[0], nil); !errors.Is(err, rheo.ErrStaleLease) {
		t.Errorf("a lease that was settled: %v", err)
	}
	expectIDs(t, "log after a stale lease", whole(t, s, "s", 0), []string{"a", "b", "c"})
	_, err := mongo.AppendSession(t.Context(), s.Instance, session, "s", on(0, "e")...)
	fails(t, err, rheo.ErrInvalid, "transaction running")
	_, err = mongo.AppendSession(t.Context(), s.Instance, nil, "s", on(0, "e")...)
	fails(t, err, rheo.ErrInvalid, "nil")
}

// TestSessionInContext: a call of the instance within the host's transaction, not
// through AppendSession, has no part in it.
func TestSessionInContext(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	if !s.cluster(t) {
		t.Skip("this server has no transactions; " + urlVariable + " may name a replica set")
	}
	s.create(t, "s", 1)
	failed := errors.New("aborted")
	_, err := s.session(t).WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		_, err := s.Append(ctx, "s", on(0, "a")...)
		return nil, errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	expectIDs(t, "log", whole(t, s, "s", 0), []string{"a"})
}

// TestChangeStream: an append in another process is hinted at.
func TestChangeStream(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	if !s.cluster(t) {
		t.Skip("this server has no change streams; " + urlVariable + " may name a replica set")
	}
	s.create(t, "s", 1)
	other := newBackend(t, s.database, s.options)
	t.Cleanup(func() { _ = other.Close() })
	hints, stop := other.Watch("s")
	defer stop()
	deadline := time.After(20 * time.Second)
	for i := 0; ; i++ {
		s.append(t, "s", rheo.Event{Pinned: true})
		select {
		case <-hints:
			return
		case <-time.After(200 * time.Millisecond): // the stream may not have been open yet
		case <-deadline:
			t.Fatal("no hint came")
		}
	}
}

// TestWatchEndsWithTheBackend: on a server without change streams, those who wait
// hear of their own process, and Close waits for what was started.
func TestWatchEndsWithTheBackend(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	s.create(t, "s", 1)
	hints, stop := s.backend.Watch("s")
	defer stop()
	s.append(t, "s", rheo.Event{})
	select {
	case <-hints:
	case <-time.After(10 * time.Second):
		t.Error("no hint came")
	}
}
