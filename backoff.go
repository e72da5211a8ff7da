package rheo

import (
	"math/rand/v2"
	"time"
)

// Backoff is a delay that doubles from Min to Max with each failure, and varies
// at random by up to a quarter, so that those who failed together do not come
// back together.
type Backoff struct {
	Min, Max time.Duration
}

// Delay returns how long to wait after the n-th failure in a row, from 1.
func (b Backoff) Delay(n int) time.Duration {
	d := b.Min
	for ; n > 1 && d < b.Max; n-- {
		d *= 2
	}
	d = min(d, b.Max)
	if spread := int64(d / 4); spread > 0 {
		d -= time.Duration(rand.Int64N(spread))
	}
	return d
}

func (b Backoff) check(field string) error {
	if b.Min <= 0 || b.Max < b.Min || b.Max > MaxDelay {
		return invalidf(field, "is %v to %v, must rise from more than 0 to %v at most", b.Min, b.Max, MaxDelay)
	}
	return nil
}
