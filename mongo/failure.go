package mongo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rheo-go/rheo"
)

// intent says what it means that a connection was lost before the answer.
type intent int

const (
	reading intent = iota // nothing can have changed
	writing               // it may have happened
)

// The server's codes that are told apart.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
	codeNamespaceNotFound    = 26
	codeMaxTimeExpired       = 50
	codeIndexOptionsConflict = 85
	codeIndexKeysConflict    = 86
	codeDocumentTooLarge     = 10334
	codeMessageTooLarge      = 17280
	codeDuplicateKey         = 11000
)

var (
	// codesAway: this server cannot do it now, and has not done it.
	codesAway = []int{6, 7, 89, 112, 134, 244, 246, 251, 262, 9001, 10058, 10107, 13435, 13436}
	// codesInterrupted: it may have begun to.
	codesInterrupted = []int{codeMaxTimeExpired, 64, 79, 91, 100, 189, 11600, 11601, 11602}
)

// failure turns an error of the driver into one of the library's.
func (b *Backend) failure(err error, i intent) error {
	var own *rheo.Error
	var server mongo.ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case mongo.IsNetworkError(err) && i == writing:
		return rheo.WrapError(rheo.ErrAmbiguous, err,
			"the connection to MongoDB was lost, or the context ended, before the answer; repeat the call to find out")
	case mongo.IsNetworkError(err):
		return unavailable(err)
	case errors.As(err, &server):
		return b.serverFailure(err, server, i)
	case errors.Is(err, mongo.ErrClientDisconnected):
		return rheo.WrapError(rheo.ErrUnavailable, err, "the host has disconnected its MongoDB client")
	case clientSide(err):
		return rheo.WrapError(rheo.ErrFailed, err, "the driver refused")
	}
	return unavailable(err)
}

// clientSide reports whether the driver has not even tried.
func clientSide(err error) bool {
	var marshal mongo.MarshalError
	var argument mongo.InvalidArgumentError
	return errors.As(err, &marshal) || errors.As(err, &argument)
}

// unavailable is for calls that were not sent, or changed nothing. The driver
// marks every error that comes after it has begun to send.
func unavailable(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before MongoDB had answered")
	case errors.Is(err, context.DeadlineExceeded): // the context's, or the driver's own
		return rheo.WrapError(rheo.ErrUnavailable, err, "MongoDB cannot be reached in the time there was")
	}
	return rheo.WrapError(rheo.ErrUnavailable, err, "MongoDB cannot be reached")
}

func (b *Backend) serverFailure(err error, server mongo.ServerError, i intent) error {
	has := func(codes ...int) bool { return slices.ContainsFunc(codes, server.HasErrorCode) }
	switch {
	case server.HasErrorLabel("NoWritesPerformed"), has(codesAway...):
		return rheo.WrapError(rheo.ErrUnavailable, err, "MongoDB could not do it now; nothing was changed")
	case has(codesInterrupted...) && i == writing, hasConcernError(err):
		return rheo.WrapError(rheo.ErrAmbiguous, err, "MongoDB was interrupted, or no majority has confirmed the write in time; repeat the call to find out")
	case has(codesInterrupted...):
		return rheo.WrapError(rheo.ErrUnavailable, err, "MongoDB was interrupted")
	case has(codeUnauthorized, codeAuthenticationFailed):
		return rheo.WrapError(rheo.ErrFailed, err, "the MongoDB user lacks a right that Rheo needs: readWrite on database %q", b.database.Name())
	case has(codeDocumentTooLarge, codeMessageTooLarge):
		return rheo.WrapError(rheo.ErrInvalid, err, "what was to be written does not fit in a MongoDB document of 16 MB; use smaller batches")
	}
	return rheo.WrapError(rheo.ErrFailed, err, "MongoDB refused")
}

// hasConcernError reports whether a write was done, but not confirmed as asked.
func hasConcernError(err error) bool {
	var one mongo.WriteException
	var bulk mongo.BulkWriteException
	return errors.As(err, &one) && one.WriteConcernError != nil || errors.As(err, &bulk) && bulk.WriteConcernError != nil
}

// unclear reports whether a write may have happened although it failed.
func (b *Backend) unclear(err error) bool {
	return err != nil && errors.Is(b.failure(err, writing), rheo.ErrAmbiguous)
}

// onlyDuplicates reports whether all that went wrong with a write of several
// documents is that some of their keys are taken.
func onlyDuplicates(err error) bool {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) {
		return mongo.IsDuplicateKeyError(err) && !hasConcernError(err)
	}
	if bulk.WriteConcernError != nil || len(bulk.WriteErrors) == 0 {
		return false
	}
	return !slices.ContainsFunc(bulk.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Code != codeDuplicateKey })
}

// A patience is for those who lost a race and try again.
type patience struct{ tries int }

// wait returns a while later, longer each time, or when ctx ends.
func (p *patience) wait(ctx context.Context) error {
	p.tries++
	if p.tries == 1 {
		return nil
	}
	const shortest, longest = time.Millisecond, 64 * time.Millisecond
	timer := time.NewTimer(rand.N(min(longest, shortest<<min(p.tries, 16))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "the context ended while others were changing the same")
	}
}

// mostLost bounds how often a call goes on after its connection was lost.
const mostLost = 3
