package rheo

import "errors"

// Reason is an error's portable class. The runtimes decide by it, and logs,
// metrics and spans carry it, so it is a small closed set of stable words.
type Reason string

// The reasons, one for each sentinel. ReasonNone belongs to a nil error.
const (
	ReasonNone            Reason = ""
	ReasonStreamNotFound  Reason = "stream_not_found"
	ReasonGroupNotFound   Reason = "group_not_found"
	ReasonAlreadyExists   Reason = "already_exists"
	ReasonConflict        Reason = "conflict"
	ReasonStaleLease      Reason = "stale_lease"
	ReasonReceiptMismatch Reason = "receipt_mismatch"
	ReasonCursorNotFound  Reason = "cursor_not_found"
	ReasonAlreadyDraining Reason = "already_draining"
	ReasonAlreadyStarted  Reason = "already_started"
	ReasonUnsupported     Reason = "unsupported"
	ReasonUnavailable     Reason = "unavailable"
	ReasonAmbiguous       Reason = "ambiguous"
	ReasonFailed          Reason = "failed"
	ReasonInvalid         Reason = "invalid"
	ReasonConfirmRequired Reason = "confirm_required"
	ReasonClosed          Reason = "closed"
)

// classes is ordered: where an error wraps several sentinels, the one that
// calls for the more careful reaction comes first.
var classes = []struct {
	sentinel error
	reason   Reason
}{
	{ErrAmbiguous, ReasonAmbiguous},
	{ErrUnavailable, ReasonUnavailable},
	{ErrStaleLease, ReasonStaleLease},
	{ErrReceiptMismatch, ReasonReceiptMismatch},
	{ErrStreamNotFound, ReasonStreamNotFound},
	{ErrGroupNotFound, ReasonGroupNotFound},
	{ErrAlreadyExists, ReasonAlreadyExists},
	{ErrConflict, ReasonConflict},
	{ErrCursorNotFound, ReasonCursorNotFound},
	{ErrAlreadyDraining, ReasonAlreadyDraining},
	{ErrAlreadyStarted, ReasonAlreadyStarted},
	{ErrUnsupported, ReasonUnsupported},
	{ErrInvalid, ReasonInvalid},
	{ErrConfirmRequired, ReasonConfirmRequired},
	{ErrClosed, ReasonClosed},
	{ErrFailed, ReasonFailed},
}

// Classify maps any error to its [Reason]. It is total: an error that wraps no
// sentinel, such as a bare [context.Canceled], says nothing about what the
// store did, and so counts as ambiguous.
func Classify(err error) Reason {
	if err == nil {
		return ReasonNone
	}
	for _, c := range classes {
		if errors.Is(err, c.sentinel) {
			return c.reason
		}
	}
	return ReasonAmbiguous
}
