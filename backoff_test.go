package rheo_test

import (
	"math"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		backoff rheo.Backoff
		n       int
		most    time.Duration
	}{
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, 0, time.Second},
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, 1, time.Second},
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, 2, 2 * time.Second},
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, 6, 32 * time.Second},
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, 7, time.Minute},
		{rheo.Backoff{Min: time.Second, Max: time.Minute}, math.MaxInt, time.Minute},
		{rheo.Backoff{Min: time.Second, Max: time.Second}, 9, time.Second},
		{rheo.Backoff{Min: 1, Max: 1}, 1, 1},
		{rheo.Backoff{Min: 1, Max: rheo.MaxDelay}, math.MaxInt, rheo.MaxDelay},
	} {
		least, most := test.most, time.Duration(0)
		for range 2000 {
			d := test.backoff.Delay(test.n)
			if !within(d, test.most*3/4, test.most) {
				t.Fatalf("%v: Delay(%d) = %v, want up to a quarter less than %v", test.backoff, test.n, d, test.most)
			}
			least, most = min(least, d), max(most, d)
		}
		if whole := test.most; whole > 1000 && most-least < whole/5 {
			t.Errorf("%v: Delay(%d) varies by %v only", test.backoff, test.n, most-least)
		}
	}
}
