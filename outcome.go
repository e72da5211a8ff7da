package rheo

import (
	"errors"
	"fmt"
	"time"
)

// settleError is a handler's error with the outcome it asks for.
type settleError struct {
	outcome Outcome
	delay   time.Duration
	cause   error
}

func (e *settleError) Error() string {
	if e.cause == nil {
		return e.outcome.String()
	}
	return e.cause.Error()
}

func (e *settleError) Unwrap() error { return e.cause }

// Reject is what a [Handler] returns to make the delivery a dead letter, with err
// as its reason.
func Reject(err error) error { return &settleError{outcome: OutcomeReject, cause: err} }

// RetryAfter is what a [Handler] returns to nack the delivery, with err as its
// reason, and to make it available after d. It spends an attempt, as every nack
// does.
func RetryAfter(err error, d time.Duration) error {
	return &settleError{outcome: OutcomeNack, delay: min(max(d, 0), MaxDelay), cause: err}
}

// Release is what a [Handler] returns to give the delivery back without spending
// an attempt: for one that finds it must not do its work now. The event is
// available at once, so wait before returning it.
func Release(err error) error { return &settleError{outcome: OutcomeRelease, cause: err} }

// settlementOf turns what a handler returned into a settlement. Like the handler
// it may panic: the error is the host's.
func settlementOf(l *Lease, err error, retry Backoff) Settlement {
	if err == nil {
		return Settlement{Lease: l, Outcome: OutcomeAck}
	}
	s := Settlement{Lease: l, Outcome: OutcomeNack, Reason: err.Error()}
	var asked *settleError
	if errors.As(err, &asked) {
		s.Outcome, s.Delay = asked.outcome, asked.delay
		return s
	}
	s.Delay = retry.Delay(l.Attempt)
	return s
}

// panicError is what a handler panicked with.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.value) }
