package rheowatermill

import (
	"context"
	"time"
)

// lifetime is the context of what Watermill gives none: it never ends, and what
// is made from it is ended by Close.
var lifetime context.Context = always{}

type always struct{}

func (always) Deadline() (time.Time, bool) { return time.Time{}, false }
func (always) Done() <-chan struct{}       { return nil }
func (always) Err() error                  { return nil }
func (always) Value(any) any               { return nil }
