package rheo

import (
	"errors"
	"fmt"
)

// The errors a caller decides by. Test with [errors.Is]; every error of this
// library wraps exactly one of them, and keeps the driver's own error under
// Unwrap where there is one. [Classify] maps any error to a [Reason].
var (
	// ErrStreamNotFound: the stream does not exist. Checked before the group.
	ErrStreamNotFound = errors.New("stream not found")
	// ErrGroupNotFound: the stream exists, the group does not.
	ErrGroupNotFound = errors.New("group not found")
	// ErrAlreadyExists: a stream or group of that name exists; nothing changed.
	ErrAlreadyExists = errors.New("already exists")
	// ErrConflict: the partition's high watermark is not the expected one;
	// nothing was appended.
	ErrConflict = errors.New("conflict")
	// ErrStaleLease: the lease was settled, superseded by a later one, or fenced
	// by a replay or reset. The holder has nothing left to do.
	ErrStaleLease = errors.New("stale lease")
	// ErrReceiptMismatch: the receipt is not the one that came with the lease.
	ErrReceiptMismatch = errors.New("receipt mismatch")
	// ErrCursorNotFound: a page cursor does not belong to what is being paged.
	ErrCursorNotFound = errors.New("cursor not found")
	// ErrAlreadyDraining: a drain of this runtime is under way already.
	ErrAlreadyDraining = errors.New("already draining")
	// ErrAlreadyStarted: this process runs a runtime of that identity already.
	ErrAlreadyStarted = errors.New("already started")
	// ErrUnsupported: the backend cannot do this; see [Capabilities].
	ErrUnsupported = errors.New("unsupported")
	// ErrUnavailable: the store cannot be reached, and nothing was changed.
	ErrUnavailable = errors.New("store unavailable")
	// ErrAmbiguous: a write may or may not have happened.
	ErrAmbiguous = errors.New("outcome unknown")
	// ErrFailed: the store refused, definitely; nothing was changed.
	ErrFailed = errors.New("failed")
	// ErrInvalid: the caller's input breaks a stated limit; nothing was changed.
	ErrInvalid = errors.New("invalid input")
	// ErrConfirmRequired: a destructive call lacks its Confirm.
	ErrConfirmRequired = errors.New("confirmation required")
	// ErrClosed: the instance or backend has been closed.
	ErrClosed = errors.New("closed")
)

// Error is the concrete type behind most errors of this library: a sentinel,
// what it is about and how to go on, and the cause if a driver reported one.
type Error struct {
	Kind   error  // one of the sentinels above
	Detail string // what, where, and how to go on
	Cause  error  // the driver's or handler's own error, or nil
}

// Error returns "rheo: <kind>: <detail>: <cause>".
func (e *Error) Error() string {
	s := "rheo: " + e.Kind.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap exposes the sentinel and the cause to [errors.Is] and [errors.As].
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Errorf makes an [*Error] of the given kind. Backends use it.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// WrapError makes an [*Error] of the given kind around a driver's error.
// Backends use it.
func WrapError(kind, cause error, format string, args ...any) error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...), Cause: cause}
}

// invalidf reports a violated limit: the field first, then the rule.
func invalidf(field, format string, args ...any) error {
	return Errorf(ErrInvalid, "%s %s", field, fmt.Sprintf(format, args...))
}
