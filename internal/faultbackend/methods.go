package faultbackend

import (
	"context"
	"slices"

	"github.com/rheo-go/rheo"
)

// ask makes a call that returns something. What it returns is dropped if the
// call failed.
func ask[R any](ctx context.Context, b *Backend, op Op, call func(context.Context) (R, error)) (R, error) {
	var result R
	err := b.do(ctx, &Call{Op: op}, func(ctx context.Context, _ *Call) (err error) {
		result, err = call(ctx)
		return err
	})
	if err != nil {
		var none R
		return none, err
	}
	return result, nil
}

func tell(ctx context.Context, b *Backend, op Op, call func(context.Context) error) error {
	return b.do(ctx, &Call{Op: op}, func(ctx context.Context, _ *Call) error { return call(ctx) })
}

// EnsureSchema implements [rheo.Backend].
func (b *Backend) EnsureSchema(ctx context.Context) error {
	return tell(ctx, b, EnsureSchema, b.inner.EnsureSchema)
}

// Ping implements [rheo.Backend].
func (b *Backend) Ping(ctx context.Context) error { return tell(ctx, b, Ping, b.inner.Ping) }

// CreateStream implements [rheo.Backend].
func (b *Backend) CreateStream(ctx context.Context, name string, config rheo.StreamConfig) error {
	return tell(ctx, b, CreateStream, func(ctx context.Context) error {
		return b.inner.CreateStream(ctx, name, config)
	})
}

// Stream implements [rheo.Backend].
func (b *Backend) Stream(ctx context.Context, name string) (rheo.StreamInfo, error) {
	return ask(ctx, b, Stream, func(ctx context.Context) (rheo.StreamInfo, error) {
		return b.inner.Stream(ctx, name)
	})
}

// Streams implements [rheo.Backend].
func (b *Backend) Streams(ctx context.Context) ([]rheo.StreamInfo, error) {
	return ask(ctx, b, Streams, b.inner.Streams)
}

// Append implements [rheo.Backend].
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	return ask(ctx, b, Append, func(ctx context.Context) ([]rheo.AppendResult, error) {
		return b.inner.Append(ctx, r)
	})
}

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	return ask(ctx, b, Read, func(ctx context.Context) ([]rheo.Event, error) {
		return b.inner.Read(ctx, r)
	})
}

// Query implements [rheo.Backend].
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	return ask(ctx, b, Query, func(ctx context.Context) (rheo.Page, error) {
		return b.inner.Query(ctx, r)
	})
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, stream, group string, config rheo.GroupConfig) error {
	return tell(ctx, b, CreateGroup, func(ctx context.Context) error {
		return b.inner.CreateGroup(ctx, stream, group, config)
	})
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, stream, group string) (rheo.GroupInfo, error) {
	return ask(ctx, b, Group, func(ctx context.Context) (rheo.GroupInfo, error) {
		return b.inner.Group(ctx, stream, group)
	})
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, stream string) ([]string, error) {
	return ask(ctx, b, Groups, func(ctx context.Context) ([]string, error) {
		return b.inner.Groups(ctx, stream)
	})
}

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	return ask(ctx, b, DeadLetters, func(ctx context.Context) (rheo.DeadLetterPage, error) {
		return b.inner.DeadLetters(ctx, r)
	})
}

// Fetch implements [rheo.Backend].
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	c := &Call{Op: Fetch, Max: r.Max}
	err := b.do(ctx, c, func(ctx context.Context, c *Call) (err error) {
		c.Leases, err = b.inner.Fetch(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.Leases, nil
}

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	renewed := make(map[*rheo.Lease]rheo.RenewResult)
	c := &Call{Op: Renew, Leases: slices.Clone(r.Leases)}
	err := b.do(ctx, c, func(ctx context.Context, c *Call) error {
		asked := r
		asked.Leases = c.Leases
		c.Items = make([]error, len(c.Leases))
		if len(c.Leases) == 0 {
			return nil
		}
		results, err := b.inner.Renew(ctx, asked)
		for at := range results {
			renewed[c.Leases[at]] = results[at]
			c.Items[at] = results[at].Err
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]rheo.RenewResult, len(r.Leases))
	for at, lease := range r.Leases {
		results[at] = renewed[lease]
		results[at].Err = c.Items[at]
	}
	return results, nil
}

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	c := &Call{Op: Settle, Settlements: slices.Clone(r.Settlements)}
	err := b.do(ctx, c, func(ctx context.Context, c *Call) (err error) {
		asked := r
		asked.Settlements = c.Settlements
		if len(asked.Settlements) > 0 {
			c.Items, err = b.inner.Settle(ctx, asked)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.Items, nil
}

// Replay implements [rheo.Backend].
func (b *Backend) Replay(ctx context.Context, r rheo.ReplayRequest) (int64, error) {
	return ask(ctx, b, Replay, func(ctx context.Context) (int64, error) {
		return b.inner.Replay(ctx, r)
	})
}

// Reset implements [rheo.Backend].
func (b *Backend) Reset(ctx context.Context, r rheo.ResetRequest) error {
	return tell(ctx, b, Reset, func(ctx context.Context) error { return b.inner.Reset(ctx, r) })
}
