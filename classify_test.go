package rheo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rheo-go/rheo"
)

// reasons are all sentinels with their reason.
var reasons = map[error]rheo.Reason{
	rheo.ErrStreamNotFound:  rheo.ReasonStreamNotFound,
	rheo.ErrGroupNotFound:   rheo.ReasonGroupNotFound,
	rheo.ErrAlreadyExists:   rheo.ReasonAlreadyExists,
	rheo.ErrConflict:        rheo.ReasonConflict,
	rheo.ErrStaleLease:      rheo.ReasonStaleLease,
	rheo.ErrReceiptMismatch: rheo.ReasonReceiptMismatch,
	rheo.ErrCursorNotFound:  rheo.ReasonCursorNotFound,
	rheo.ErrAlreadyDraining: rheo.ReasonAlreadyDraining,
	rheo.ErrAlreadyStarted:  rheo.ReasonAlreadyStarted,
	rheo.ErrUnsupported:     rheo.ReasonUnsupported,
	rheo.ErrUnavailable:     rheo.ReasonUnavailable,
	rheo.ErrAmbiguous:       rheo.ReasonAmbiguous,
	rheo.ErrFailed:          rheo.ReasonFailed,
	rheo.ErrInvalid:         rheo.ReasonInvalid,
	rheo.ErrConfirmRequired: rheo.ReasonConfirmRequired,
	rheo.ErrClosed:          rheo.ReasonClosed,
}

func TestClassifyIsTotal(t *testing.T) {
	t.Parallel()
	classify := func(err error, want rheo.Reason) {
		t.Helper()
		if got := rheo.Classify(err); got != want {
			t.Errorf("Classify(%v) = %q, want %q", err, got, want)
		}
	}
	classify(nil, rheo.ReasonNone)
	for sentinel, reason := range reasons {
		classify(sentinel, reason)
		classify(rheo.Errorf(sentinel, "detail"), reason)
		classify(rheo.WrapError(sentinel, io.ErrUnexpectedEOF, "detail"), reason)
		classify(fmt.Errorf("around: %w", rheo.WrapError(sentinel, context.DeadlineExceeded, "detail")), reason)
		classify(errors.Join(io.EOF, fmt.Errorf("%w", sentinel)), reason)
	}
	// What says nothing of the store may have happened.
	for _, err := range []error{
		io.EOF, context.Canceled, context.DeadlineExceeded, errors.New("stale lease"), (*fragileError)(nil),
	} {
		classify(err, rheo.ReasonAmbiguous)
	}
}

// Where an error wraps several sentinels, the more careful reaction wins: not
// knowing before knowing, and dropping before asking again.
func TestClassifyIsCareful(t *testing.T) {
	t.Parallel()
	order := []error{rheo.ErrAmbiguous, rheo.ErrUnavailable, rheo.ErrStaleLease, rheo.ErrReceiptMismatch}
	for at, careful := range order {
		for other := range reasons {
			for _, more := range order[:at] {
				if errors.Is(other, more) {
					other = careful
				}
			}
			for _, err := range []error{errors.Join(careful, other), errors.Join(other, careful), rheo.WrapError(other, careful, "")} {
				if got := rheo.Classify(err); got != reasons[careful] {
					t.Errorf("Classify(%v) = %q, want %q", err, got, reasons[careful])
				}
			}
		}
	}
	for other := range reasons {
		want := reasons[other]
		if got := rheo.Classify(errors.Join(rheo.ErrFailed, other)); got != want {
			t.Errorf("a failure that is also %v: %q, want %q", other, got, want)
		}
	}
}
