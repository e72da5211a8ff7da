package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rheo-go/rheo"
)

// intent says what it means that a connection was lost before the answer.
type intent int

const (
	reading intent = iota // nothing can have changed
	writing               // it may have happened
)

// The SQLSTATEs that are told apart; a class is the first two characters.
const (
	codeFeatureNotSupported = "0A000" // also: "cached plan must not change result type"
	codeReadOnly            = "25006"
	codeNoStatement         = "26000"
	codeSerialization       = "40001"
	codeDeadlock            = "40P01"
	codeDenied              = "42501"
	codeNoTable             = "42P01"
	codeNoFunction          = "42883"
	codeNoColumn            = "42703"
	codeDuplicateStatement  = "42P05"
	codeUnique              = "23505"
	codeLockNotAvailable    = "55P03"
	codeCanceled            = "57014"

	classConnection   = "08"
	classResources    = "53"
	classIntervention = "57"
	classSystem       = "58"
)

// failure turns an error of pgx into one of the library's.
func (b *Backend) failure(err error, i intent) error {
	var own *rheo.Error
	var server *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.As(err, &server):
		return b.serverFailure(err, server, i)
	case i == writing && !pgconn.SafeToRetry(err):
		return rheo.WrapError(rheo.ErrAmbiguous, err,
			"the connection to PostgreSQL was lost, or the context ended, before the answer; repeat the call to find out")
	}
	return unavailable(err)
}

func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return rheo.WrapError(rheo.ErrUnavailable, err, "the context ended before PostgreSQL had answered")
	}
	return rheo.WrapError(rheo.ErrUnavailable, err, "PostgreSQL cannot be reached")
}

// serverFailure is about errors that the server reported. One that did not end
// the connection is definite: its transaction was rolled back.
func (b *Backend) serverFailure(err error, server *pgconn.PgError, i intent) error {
	fatal := server.Severity == "FATAL" || server.Severity == "PANIC" ||
		server.SeverityUnlocalized == "FATAL" || server.SeverityUnlocalized == "PANIC"
	switch {
	case fatal && i == writing:
		return rheo.WrapError(rheo.ErrAmbiguous, err, "PostgreSQL closed the connection before the answer; repeat the call to find out")
	case fatal:
		return unavailable(err)
	}
	switch server.Code {
	case codeNoTable, codeNoFunction, codeNoColumn:
		return rheo.WrapError(rheo.ErrFailed, err,
			"the database lacks Rheo's schema, or an older one is there (prefix %q): call EnsureSchema, or run rheo migrate", b.options.Prefix)
	case codeDenied:
		return rheo.WrapError(rheo.ErrFailed, err, "the database role lacks a right that Rheo needs")
	case codeNoStatement, codeDuplicateStatement:
		return rheo.WrapError(rheo.ErrFailed, err,
			"a pooler stands between, and prepared statements do not survive it: set default_query_exec_mode=exec in the pool's configuration")
	case codeReadOnly, codeSerialization, codeDeadlock, codeLockNotAvailable, codeCanceled:
		return rheo.WrapError(rheo.ErrUnavailable, err, "PostgreSQL could not do it now; nothing was changed")
	}
	switch server.Code[:min(2, len(server.Code))] {
	case classConnection, classResources, classIntervention, classSystem:
		return rheo.WrapError(rheo.ErrUnavailable, err, "PostgreSQL could not do it now; nothing was changed")
	}
	return rheo.WrapError(rheo.ErrFailed, err, "PostgreSQL refused")
}

// again reports whether an error means no more than that the same statements may
// well go through if they are sent again.
func again(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	return server.Code == codeSerialization || server.Code == codeDeadlock ||
		server.Code == codeFeatureNotSupported && strings.Contains(server.Routine, "RevalidateCachedQuery")
}

func isUnique(err error, index string) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == codeUnique && server.ConstraintName == index
}

func noRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
