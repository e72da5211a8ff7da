package redis

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
)

// intent says what it means that an answer never came.
type intent int

const (
	reading intent = iota // nothing can have changed
	writing               // it may have happened
)

// The error codes, Redis' and our scripts', that are told apart: an error's first word.
const (
	codeNoScript    = "NOSCRIPT"
	codeNoGroup     = "NOGROUP"
	codeReadOnly    = "READONLY"
	codeOOM         = "OOM"
	codeMisconf     = "MISCONF"
	codeLoading     = "LOADING"
	codeBusy        = "BUSY"
	codeClusterDown = "CLUSTERDOWN"
	codeMasterDown  = "MASTERDOWN"
	codeTryAgain    = "TRYAGAIN"
	codeMoved       = "MOVED"
	codeAsk         = "ASK"
	codeNoReplicas  = "NOREPLICAS"
	codeNoPerm      = "NOPERM"
	codeNoAuth      = "NOAUTH"
	codeWrongPass   = "WRONGPASS"
	codeWrongType   = "WRONGTYPE"

	codeLostMeta  = "LOSTMETA"  // a partition's own hash
	codeLostLog   = "LOSTLOG"   // its stream
	codeLostGroup = "LOSTGROUP" // a group's hash
)

// code returns the code of an error that the server reported, or "".
func code(err error) string {
	if err == nil || errors.Is(err, redis.Nil) {
		return ""
	}
	first, _ := serverText(err)
	return first
}

// failure turns an error of go-redis into one of the library's.
func (b *Backend) failure(err error, i intent) error {
	var own *rheo.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case code(err) != "":
		return serverFailure(err)
	case i == writing && !neverSent(err):
		b.lookAgain()
		return rheo.WrapError(rheo.ErrAmbiguous, err,
			"the connection to Redis was lost, or the context ended, before the answer; repeat the call to find out")
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before Redis had answered")
	}
	b.lookAgain()
	return rheo.WrapError(rheo.ErrUnavailable, err, "Redis cannot be reached")
}

// neverSent reports whether the error came before anything was sent.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// lookAgain has a cluster's client ask who serves what: it does so by itself only when
// it repeats a command, which ours are not to be.
func (b *Backend) lookAgain() {
	if cluster, ok := b.client.(*redis.ClusterClient); ok && b.life.Err() == nil {
		cluster.ReloadState(b.life)
	}
}

// serverFailure is about errors that the server reported: all of them are definite,
// since a script fails before its first change or not at all.
func serverFailure(err error) error {
	unavailable := func(what string) error {
		return rheo.WrapError(rheo.ErrUnavailable, err, "%s; nothing was changed", what)
	}
	failed := func(what string) error { return rheo.WrapError(rheo.ErrFailed, err, "%s", what) }
	switch code(err) {
	case codeReadOnly:
		return unavailable("this Redis is a replica, and replicas are not written to: connect to the master, through Sentinel or as a cluster")
	case codeOOM:
		return unavailable("Redis is at its maxmemory, and takes nothing more: raise it, or shorten the idempotency window")
	case codeMisconf:
		return unavailable("Redis cannot write its snapshot to the disk, and so takes no writes: see its log")
	case codeLoading, codeBusy, codeClusterDown, codeMasterDown, codeTryAgain, codeMoved, codeAsk, codeNoReplicas:
		return unavailable("Redis could not do it now")
	case codeNoPerm:
		return failed("the ACL of this Redis user lacks a right that Rheo needs; docs/guides/redis.md lists them")
	case codeNoAuth, codeWrongPass:
		return failed("Redis wants another user name or password: see the client's options")
	case codeWrongType:
		return failed("a key with Rheo's prefix holds something that is not Rheo's: choose another Options.Prefix")
	}
	return failed("Redis refused")
}

// serverText is the server's message, cut behind its code.
func serverText(err error) (code, rest string) {
	var server redis.Error
	if !errors.As(err, &server) {
		return "", ""
	}
	code, rest, _ = strings.Cut(server.Error(), " ")
	return code, rest
}

// partly is the error of an operation on several partitions of which some went through.
func partly(err error, ran int, what string) error {
	if err == nil || ran == 0 {
		return err
	}
	return rheo.WrapError(rheo.ErrAmbiguous, err, "%s went through in %d partitions, and not in all; repeat it", what, ran)
}
