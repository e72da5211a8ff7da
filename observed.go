package rheo

import (
	"context"
	"time"
)

// observedBackend tells an observer of every call to the backend inside.
type observedBackend struct {
	Backend
	observer Observer
	instance string
}

// observe makes the call between the observer's two. tally adds what the result
// says, which may be a part of what was asked for if the call failed.
func observe[R any](
	ctx context.Context, b *observedBackend, start OperationStart,
	call func(context.Context) (R, error), tally func(R, *OperationEnd),
) (R, error) {
	start.Instance = b.instance
	ctx = b.observer.StartOperation(ctx, start)
	began := time.Now()
	result, err := call(ctx)
	end := OperationEnd{OperationStart: start, Duration: time.Since(began), Reason: Classify(err), Err: err}
	tally(result, &end)
	b.observer.EndOperation(ctx, end)
	return result, err
}

// observeOnly is observe for calls that return nothing to tally.
func observeOnly(ctx context.Context, b *observedBackend, start OperationStart, call func(context.Context) error) error {
	_, err := observe(ctx, b, start, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) }, tallyNothing)
	return err
}

func tallyNothing[R any](R, *OperationEnd) {}

func (b *observedBackend) EnsureSchema(ctx context.Context) error {
	return observeOnly(ctx, b, OperationStart{Operation: OperationEnsureSchema}, b.Backend.EnsureSchema)
}

func (b *observedBackend) Ping(ctx context.Context) error {
	return observeOnly(ctx, b, OperationStart{Operation: OperationPing}, b.Backend.Ping)
}

func (b *observedBackend) CreateStream(ctx context.Context, name string, config StreamConfig) error {
	start := OperationStart{Operation: OperationCreateStream, Stream: name}
	return observeOnly(ctx, b, start, func(ctx context.Context) error { return b.Backend.CreateStream(ctx, name, config) })
}

func (b *observedBackend) Stream(ctx context.Context, name string) (StreamInfo, error) {
	start := OperationStart{Operation: OperationStream, Stream: name}
	return observe(ctx, b, start, func(ctx context.Context) (StreamInfo, error) { return b.Backend.Stream(ctx, name) }, tallyNothing)
}

func (b *observedBackend) Streams(ctx context.Context) ([]StreamInfo, error) {
	return observe(ctx, b, OperationStart{Operation: OperationStreams}, b.Backend.Streams, tallyLen)
}

func tallyLen[T any](all []T, end *OperationEnd) { end.Done = len(all) }

func (b *observedBackend) Append(ctx context.Context, r AppendRequest) ([]AppendResult, error) {
	start := OperationStart{Operation: OperationAppend, Stream: r.Stream, Count: len(r.Events)}
	return observe(ctx, b, start, func(ctx context.Context) ([]AppendResult, error) { return b.Backend.Append(ctx, r) }, func(results []AppendResult, end *OperationEnd) {
		end.Done, end.Duplicates = tallyAppend(results)
	})
}

func tallyAppend(results []AppendResult) (appended, duplicates int) {
	for at := range results {
		switch {
		case results[at].Err != nil:
		case results[at].Duplicate:
			duplicates++
		default:
			appended++
		}
	}
	return appended, duplicates
}

func (b *observedBackend) Read(ctx context.Context, r ReadRequest) ([]Event, error) {
	start := OperationStart{Operation: OperationRead, Stream: r.Stream, Count: r.Limit}
	return observe(ctx, b, start, func(ctx context.Context) ([]Event, error) { return b.Backend.Read(ctx, r) }, tallyLen)
}

func (b *observedBackend) Query(ctx context.Context, r QueryRequest) (Page, error) {
	start := OperationStart{Operation: OperationQuery, Stream: r.Stream, Count: r.Limit}
	return observe(ctx, b, start, func(ctx context.Context) (Page, error) { return b.Backend.Query(ctx, r) }, func(p Page, end *OperationEnd) {
		end.Done = len(p.Events)
	})
}

func (b *observedBackend) CreateGroup(ctx context.Context, stream, group string, config GroupConfig) error {
	start := OperationStart{Operation: OperationCreateGroup, Stream: stream, Group: group}
	return observeOnly(ctx, b, start, func(ctx context.Context) error { return b.Backend.CreateGroup(ctx, stream, group, config) })
}

func (b *observedBackend) Group(ctx context.Context, stream, group string) (GroupInfo, error) {
	start := OperationStart{Operation: OperationGroup, Stream: stream, Group: group}
	return observe(ctx, b, start, func(ctx context.Context) (GroupInfo, error) { return b.Backend.Group(ctx, stream, group) }, tallyNothing)
}

func (b *observedBackend) Groups(ctx context.Context, stream string) ([]string, error) {
	start := OperationStart{Operation: OperationGroups, Stream: stream}
	return observe(ctx, b, start, func(ctx context.Context) ([]string, error) { return b.Backend.Groups(ctx, stream) }, tallyLen)
}

func (b *observedBackend) DeadLetters(ctx context.Context, r DeadLettersRequest) (DeadLetterPage, error) {
	start := OperationStart{Operation: OperationDeadLetters, Stream: r.Stream, Group: r.Group, Count: r.Limit}
	return observe(ctx, b, start, func(ctx context.Context) (DeadLetterPage, error) { return b.Backend.DeadLetters(ctx, r) }, func(p DeadLetterPage, end *OperationEnd) {
		end.Done = len(p.DeadLetters)
	})
}

func (b *observedBackend) Fetch(ctx context.Context, r FetchRequest) ([]*Lease, error) {
	start := OperationStart{Operation: OperationFetch, Stream: r.Stream, Group: r.Group, ConsumerID: r.ConsumerID, Count: r.Max}
	return observe(ctx, b, start, func(ctx context.Context) ([]*Lease, error) { return b.Backend.Fetch(ctx, r) }, func(leases []*Lease, end *OperationEnd) {
		end.Done = len(leases)
		for _, l := range leases {
			if l.Attempt > 1 {
				end.Redelivered++
			}
		}
	})
}

func (b *observedBackend) Renew(ctx context.Context, r RenewRequest) ([]RenewResult, error) {
	start := OperationStart{Operation: OperationRenew, Stream: r.Stream, Group: r.Group, Count: len(r.Leases)}
	return observe(ctx, b, start, func(ctx context.Context) ([]RenewResult, error) { return b.Backend.Renew(ctx, r) }, func(results []RenewResult, end *OperationEnd) {
		for _, result := range results {
			if result.Err == nil {
				end.Done++
			} else {
				end.Lost++
			}
		}
	})
}

func (b *observedBackend) Settle(ctx context.Context, r SettleRequest) ([]error, error) {
	start := OperationStart{Operation: OperationSettle, Stream: r.Stream, Group: r.Group, Count: len(r.Settlements)}
	return observe(ctx, b, start, func(ctx context.Context) ([]error, error) { return b.Backend.Settle(ctx, r) }, func(results []error, end *OperationEnd) {
		for at, err := range results {
			if err != nil {
				end.Lost++
				continue
			}
			end.Done++
			end.Outcomes.add(r.Settlements[at].Outcome)
		}
	})
}

func (c *OutcomeCounts) add(o Outcome) {
	switch o {
	case OutcomeAck:
		c.Acked++
	case OutcomeNack:
		c.Nacked++
	case OutcomeReject:
		c.Rejected++
	case OutcomeRelease:
		c.Released++
	}
}

func (b *observedBackend) Replay(ctx context.Context, r ReplayRequest) (int64, error) {
	start := OperationStart{Operation: OperationReplay, Stream: r.Stream, Group: r.Group}
	return observe(ctx, b, start, func(ctx context.Context) (int64, error) { return b.Backend.Replay(ctx, r) }, func(opened int64, end *OperationEnd) {
		end.Done = int(opened)
	})
}

func (b *observedBackend) Reset(ctx context.Context, r ResetRequest) error {
	start := OperationStart{Operation: OperationReset, Stream: r.Stream, Group: r.Group}
	return observeOnly(ctx, b, start, func(ctx context.Context) error { return b.Backend.Reset(ctx, r) })
}
