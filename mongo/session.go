package mongo

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo"
)

// AppendSession appends to a stream of the instance, whose backend must be a
// [Backend], in the transaction that runs in the host's session, which is of the
// same client: the events are in the log if and only if it commits, and nobody sees
// them before. It is otherwise [rheo.Instance.Append].
//
// From here to its end the transaction holds the next place of each partition that
// it appends to, and others who append there wait, or the transaction has to be
// repeated: keep it short, and make this its last step. An error that says to repeat
// it carries the driver's TransientTransactionError label, by which
// [mongo.Session.WithTransaction] does so. After any error, abort it.
//
// Where the deployment has no transactions, as a standalone server, the error is
// [rheo.ErrUnsupported].
func AppendSession(ctx context.Context, in *rheo.Instance, session *mongo.Session, stream string, events ...rheo.Event) ([]rheo.AppendResult, error) {
	ctx, err := withHostSession(ctx, in, session)
	if err != nil {
		return nil, err
	}
	return in.Append(ctx, stream, events...)
}

// SettleSession settles deliveries of one group in the transaction that runs in the
// host's session, so that what a handler has written there and its ack are one: both
// are committed, or neither. It is otherwise [rheo.Instance.Settle]; where an item's
// result is [rheo.ErrStaleLease] somebody else has the event meanwhile, and the host
// should abort. What is said of the transaction at [AppendSession] holds here too.
func SettleSession(ctx context.Context, in *rheo.Instance, session *mongo.Session, settlements ...rheo.Settlement) ([]error, error) {
	ctx, err := withHostSession(ctx, in, session)
	if err != nil {
		return nil, err
	}
	return in.Settle(ctx, settlements...)
}

// hostSessionKey is for the context that brings a host's session through the
// Instance, whose checks and defaults are the same for all calls. A session that
// merely happens to be in a context is not meant.
type hostSessionKey struct{}

func withHostSession(ctx context.Context, in *rheo.Instance, session *mongo.Session) (context.Context, error) {
	b, ours := in.Backend().(*Backend)
	if !ours {
		return nil, rheo.Errorf(rheo.ErrUnsupported, "the instance's backend is a %T, not a MongoDB backend", in.Backend())
	}
	if _, err := b.enter(ctx); err != nil {
		return nil, err
	}
	cluster, err := b.isCluster(ctx)
	if err != nil {
		return nil, err
	}
	if !cluster {
		return nil, rheo.Errorf(rheo.ErrUnsupported, "this MongoDB is a standalone server, which has no transactions; make it a replica set")
	}
	switch {
	case session == nil:
		return nil, rheo.Errorf(rheo.ErrInvalid, "session must not be nil")
	case session.Client() != b.database.Client():
		return nil, rheo.Errorf(rheo.ErrInvalid, "session must be of the same client as the instance's database")
	case !session.TransactionRunning():
		return nil, rheo.Errorf(rheo.ErrInvalid, "session must have a transaction running")
	}
	return context.WithValue(mongo.NewSessionContext(ctx, session), hostSessionKey{}, session), nil
}

func hostSession(ctx context.Context) *mongo.Session {
	session, _ := ctx.Value(hostSessionKey{}).(*mongo.Session)
	return session
}

// withoutSession is for what a call reads or writes apart from the transaction.
func withoutSession(ctx context.Context) context.Context {
	if mongo.SessionFromContext(ctx) == nil {
		return ctx
	}
	return mongo.NewSessionContext(ctx, nil)
}

// appendInSession looks and inserts once: whoever loses a race has to repeat the
// whole transaction.
func (b *Backend) appendInSession(ctx context.Context, s *stream, call *appendCall) ([]rheo.AppendResult, error) {
	a := b.newAppending(s, []*appendCall{call})
	err := a.look(ctx)
	var left []*share
	if err == nil {
		left, err = a.left()
	}
	if err == nil && len(left) > 0 {
		err = b.inSession(a.insert(ctx, left))
	}
	if err == nil {
		err = a.fetchStored(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.finish(call, nil)
	return call.results, nil
}

// inSession turns an error in the host's transaction, which is aborted by it, into
// one of the library's.
func (b *Backend) inSession(err error) error {
	switch {
	case err == nil:
		return nil
	case onlyDuplicates(err):
		return rheo.WrapError(rheo.ErrUnavailable, errors.Join(transient{}, err), "another append came first; repeat the transaction")
	}
	return b.failure(err, reading) // the host commits
}

// transient has the driver repeat the transaction.
type transient struct{}

// Error implements error.
func (transient) Error() string { return "the transaction has to be repeated" }

// HasErrorLabel implements [mongo.LabeledError].
func (transient) HasErrorLabel(label string) bool { return label == "TransientTransactionError" }
