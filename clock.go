package rheo

import "time"

// Clock tells the time. A backend that runs inside the process judges lease
// expiry by one; a shared store uses its own clock, so that two hosts' clocks
// are never compared.
type Clock interface {
	Now() time.Time
}

// SystemClock is the [Clock] of the machine, the default everywhere.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// storedTime brings a time to the form in which every backend keeps it: UTC,
// whole microseconds, no monotonic reading.
func storedTime(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}
