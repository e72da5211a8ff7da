package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rheo-go/rheo"
)

// The shapes of the drivers' errors.
type (
	intCodeError   struct{ code int }   // modernc.org/sqlite: a method, extended code
	typedCodeError struct{ code uint8 } // ncruces/go-sqlite3: a method with a type of its own
	fieldCodeError struct {             // mattn/go-sqlite3: fields
		Code, ExtendedCode int
	}
	textCodeError struct{ Code string }
)

type errorCode uint8

func (e *intCodeError) Error() string   { return "x" }
func (e *intCodeError) Code() int       { return e.code }
func (e *typedCodeError) Error() string { return "x" }
func (e *typedCodeError) Code() errorCode {
	return errorCode(e.code)
}
func (e fieldCodeError) Error() string { return "x" }
func (e textCodeError) Error() string  { return "x" }

func TestResultCode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		code int
		ok   bool
		busy bool
	}{
		{err: &intCodeError{codeBusy}, code: codeBusy, ok: true, busy: true},
		{err: &intCodeError{codeBusySnapshot}, code: codeBusy, ok: true},
		{err: fmt.Errorf("w: %w", &intCodeError{codeIOErr | 3<<8}), code: codeIOErr, ok: true},
		{err: &typedCodeError{codeLocked}, code: codeLocked, ok: true, busy: true},
		{err: fmt.Errorf("w: %w", fieldCodeError{Code: codeFull}), code: codeFull, ok: true},
		{err: fieldCodeError{Code: codeBusy, ExtendedCode: codeBusySnapshot}, code: codeBusy, ok: true},
		{err: &driverError{fieldCodeError{Code: codeBusy, ExtendedCode: codeBusy}}, code: codeBusy, ok: true, busy: true},
		{err: textCodeError{"5"}},
		{err: context.Canceled},
		{err: nil},
	}
	for _, tt := range tests {
		code, ok := resultCode(tt.err)
		if code != tt.code || ok != tt.ok || isBusy(tt.err) != tt.busy {
			t.Errorf("%#v: code %d, %t, busy %t", tt.err, code, ok, isBusy(tt.err))
		}
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		during phase
		err    error
		want   error
	}{
		{reading, &intCodeError{codeIOErr}, rheo.ErrUnavailable},
		{writing, &intCodeError{codeIOErr}, rheo.ErrUnavailable},
		{committing, &intCodeError{codeIOErr}, rheo.ErrAmbiguous},
		{committing, &intCodeError{codeFull}, rheo.ErrFailed},
		{committing, context.Canceled, rheo.ErrAmbiguous},
		{committing, errors.New("the driver's own"), rheo.ErrAmbiguous},
		{committing, &intCodeError{codeCorrupt}, rheo.ErrAmbiguous},
		{reading, &intCodeError{codeCorrupt}, rheo.ErrFailed},
		{reading, &intCodeError{codeNotADB}, rheo.ErrFailed},
		{writing, &intCodeError{codeReadOnly}, rheo.ErrFailed},
		{writing, &intCodeError{codeError}, rheo.ErrFailed},
		{reading, errors.New("the driver's own"), rheo.ErrUnavailable},
		{reading, &driverError{rheo.Errorf(rheo.ErrClosed, "x")}, rheo.ErrClosed},
	}
	for _, tt := range tests {
		if err := failure(tt.during, &driverError{tt.err}); !errors.Is(err, tt.want) || rheo.Classify(err) != rheo.Classify(tt.want) {
			t.Errorf("%v during %d: %v, want %v", tt.err, tt.during, err, tt.want)
		}
	}
	if err := failure(writing, nil); err != nil {
		t.Error(err)
	}
}
