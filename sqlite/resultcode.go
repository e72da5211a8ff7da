package sqlite

import (
	"context"
	"errors"
	"reflect"

	"github.com/rheo-go/rheo"
)

// The primary result codes of SQLite that mean something here:
// https://www.sqlite.org/rescode.html
const (
	codeError     = 1
	codePerm      = 3
	codeBusy      = 5
	codeLocked    = 6
	codeNoMem     = 7
	codeReadOnly  = 8
	codeInterrupt = 9
	codeIOErr     = 10
	codeCorrupt   = 11
	codeFull      = 13
	codeCantOpen  = 14
	codeProtocol  = 15
	codeTooBig    = 18
	codeAuth      = 23
	codeNotADB    = 26

	// codeBusySnapshot is an extended code: a transaction that has read cannot
	// become the writer any more, however long it waits.
	codeBusySnapshot = codeBusy | 2<<8
)

// resultCode returns SQLite's primary result code of a driver's error.
func resultCode(err error) (code int, ok bool) {
	code, ok = extendedCode(err)
	return code & 0xff, ok
}

// extendedCode returns the result code, extended if the driver tells so much.
// Drivers agree on none but the number. Most have a method Code, some with a type
// of their own; go-sqlite3's error is a struct with fields Code and ExtendedCode.
func extendedCode(err error) (code int, ok bool) {
	var coder interface{ Code() int }
	if errors.As(err, &coder) {
		return coder.Code(), true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if code, ok := reflectCode(reflect.ValueOf(err)); ok {
			return code, true
		}
	}
	return 0, false
}

// reflectCode returns what a method or exported field ExtendedCode, or else Code,
// holds, if it is an integer.
func reflectCode(err reflect.Value) (code int, ok bool) {
	if code, ok := integer(err.MethodByName("ExtendedCode")); ok {
		return code, true
	}
	if code, ok := integer(err.MethodByName("Code")); ok {
		return code, true
	}
	s := reflect.Indirect(err)
	if s.Kind() != reflect.Struct {
		return 0, false
	}
	if code, ok := integer(s.FieldByName("ExtendedCode")); ok && code != 0 {
		return code, true
	}
	return integer(s.FieldByName("Code"))
}

// integer returns the value of an integer, or of a function that returns one.
func integer(v reflect.Value) (value int, ok bool) {
	if v.IsValid() && v.Kind() == reflect.Func && v.Type().NumIn() == 0 && v.Type().NumOut() == 1 {
		v = v.Call(nil)[0]
	}
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return int(v.Int()), true
	case v.CanUint():
		return int(v.Uint()), true
	}
	return 0, false
}

// isBusy reports whether somebody else holds a lock that will be let go.
func isBusy(err error) bool {
	code, ok := extendedCode(err)
	if !ok || code == codeBusySnapshot {
		return false
	}
	code &= 0xff
	return code == codeBusy || code == codeLocked || code == codeProtocol
}

// driverError is an error from database/sql or the driver, not yet classified. In
// a transaction it means that SQLite may have rolled it back already.
type driverError struct{ cause error }

func (e *driverError) Error() string { return e.cause.Error() }
func (e *driverError) Unwrap() error { return e.cause }

// phase is what was under way when an error came up.
type phase int

const (
	reading    phase = iota // nothing would have been changed
	writing                 // within a transaction that was rolled back
	committing              // after COMMIT was sent
)

var explanations = map[int]struct {
	kind   error
	detail string
}{
	codeBusy:     {rheo.ErrUnavailable, "another connection holds the lock, or has written since this transaction began to read: roll back and begin anew, as a writer"},
	codeLocked:   {rheo.ErrUnavailable, "another connection of the shared cache holds the lock"},
	codeProtocol: {rheo.ErrUnavailable, "the file's locks are contended"},
	codeNoMem:    {rheo.ErrUnavailable, "SQLite is out of memory"},
	codeCantOpen: {rheo.ErrUnavailable, "the database file cannot be opened: does its directory exist, and may this process write there?"},
	codeIOErr:    {rheo.ErrUnavailable, "reading or writing the database file failed"},
	codePerm:     {rheo.ErrFailed, "the file does not allow it"},
	codeAuth:     {rheo.ErrFailed, "the connection's authorizer does not allow it"},
	codeReadOnly: {rheo.ErrFailed, "the database is read-only: open it for writing, and check the permissions of the file and its directory"},
	codeFull:     {rheo.ErrFailed, "the disk, or the size that PRAGMA max_page_count allows, is full: make room and repeat the call"},
	codeTooBig:   {rheo.ErrFailed, "a value is larger than this SQLite allows"},
	codeCorrupt:  {rheo.ErrFailed, "the database file is damaged: check it with PRAGMA integrity_check, and restore it from a backup"},
	codeNotADB:   {rheo.ErrFailed, "the file is not a SQLite database, or is encrypted: check the path that the *sql.DB was opened with"},
}

// failure classifies an error. What is a [rheo.Error] already stays as it is.
func failure(during phase, err error) error {
	var ours *rheo.Error
	if err == nil {
		return nil
	}
	if errors.As(err, &ours) {
		return ours
	}
	var raw *driverError
	if errors.As(err, &raw) {
		err = raw.cause
	}
	code, known := resultCode(err)
	kind, detail := rheo.ErrUnavailable, "the database did not answer as it should"
	switch explained, ok := explanations[code]; {
	case ok:
		kind, detail = explained.kind, explained.detail
	case code == codeInterrupt || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		detail = "the context ended during the call"
	case known:
		kind, detail = rheo.ErrFailed, "SQLite refused"
	}
	if during == committing && (kind == rheo.ErrUnavailable || code == codeCorrupt) { //nolint:errorlint // two sentinels are compared
		kind, detail = rheo.ErrAmbiguous, "the commit failed, and may have happened all the same: "+detail
	}
	return rheo.WrapError(kind, err, "%s", detail)
}
