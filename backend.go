package rheo

import (
	"context"
	"time"
)

// Backend is the contract between [Instance] and a store. An application passes
// one to [New] and calls the Instance; this interface is for those who write
// backends. Package backendtest checks an implementation against every promise;
// packages ledger and delivery hold the part that is the same for any store with
// an atomic read-modify-write.
//
// Of every method:
//   - It is called concurrently.
//   - Arguments are checked and complete: names, limits and defaults are the
//     Instance's business, and a stream's partitions are in range. Whether the
//     stream and group exist is the backend's: [ErrStreamNotFound] is told before
//     [ErrGroupNotFound].
//   - Arguments belong to the caller and must not be kept or changed; results
//     belong to the caller, who may change them.
//   - It returns soon after ctx ends. Contention inside the store is waited out
//     within ctx, not reported.
//   - Errors wrap one of the package's sentinels, and keep the driver's error. A
//     write that may have happened is [ErrAmbiguous], never [ErrFailed] or
//     [ErrUnavailable]. The Instance does not retry.
//   - "Now" is the store's clock.
type Backend interface {
	// Capabilities is constant.
	Capabilities() Capabilities
	// EnsureSchema is idempotent and safe in many processes at once.
	EnsureSchema(ctx context.Context) error
	// Ping makes a round trip to the store.
	Ping(ctx context.Context) error
	// Close closes what the backend opened itself. Later calls of any method
	// return ErrClosed; it is called once.
	Close() error

	// CreateStream returns ErrAlreadyExists if the name is taken.
	CreateStream(ctx context.Context, name string, config StreamConfig) error
	// Stream describes one stream.
	Stream(ctx context.Context, name string) (StreamInfo, error)
	// Streams describes all, sorted by name.
	Streams(ctx context.Context) ([]StreamInfo, error)

	// Append gives each event that its partition does not hold by ID the next
	// sequence, in order, without gaps whatever other writers do, and returns one
	// result per event. Within a partition all of it is appended, or none; if
	// Guarantees.AtomicBatch, over all partitions. ErrConflict if an expectation
	// fails in a partition in which something would be appended.
	Append(ctx context.Context, r AppendRequest) ([]AppendResult, error)
	// Read returns events of one partition in order. Who has seen a sequence can
	// read every lower one.
	Read(ctx context.Context, r ReadRequest) ([]Event, error)
	// Query returns one page of what the filter selects.
	Query(ctx context.Context, r QueryRequest) (Page, error)

	// CreateGroup resolves config.Start against the stream as it is now, and
	// keeps the resolved position for a later Reset. Partitions are all named.
	CreateGroup(ctx context.Context, stream, group string, config GroupConfig) error
	// Group describes one group.
	Group(ctx context.Context, stream, group string) (GroupInfo, error)
	// Groups lists the stream's groups, sorted.
	Groups(ctx context.Context, stream string) ([]string, error)
	// DeadLetters returns one page, by partition and sequence.
	DeadLetters(ctx context.Context, r DeadLettersRequest) (DeadLetterPage, error)

	// Fetch leases what is due; see Instance.Fetch. A partition in the request
	// that the group does not read is ErrInvalid.
	Fetch(ctx context.Context, r FetchRequest) ([]*Lease, error)
	// Renew returns a result per lease. The check and the change are one step.
	Renew(ctx context.Context, r RenewRequest) ([]RenewResult, error)
	// Settle returns nil, ErrStaleLease or ErrReceiptMismatch per item. The check
	// and the change are one step, and a dead letter is written in it.
	Settle(ctx context.Context, r SettleRequest) ([]error, error)
	// Replay opens deliveries again and returns how many; see Instance.Replay.
	Replay(ctx context.Context, r ReplayRequest) (int64, error)
	// Reset starts deliveries over; see Instance.ResetGroup.
	Reset(ctx context.Context, r ResetRequest) error
}

// Waiter is implemented by backends that can tell when something may be due. It
// is a hint: the runtimes are correct, if slower, without it.
type Waiter interface {
	// Watch returns a channel that receives after something was appended to the
	// stream, or became available again in one of its groups. Hints coalesce;
	// one may be lost or come for nothing. stop ends the watch and returns when
	// no more hints will be sent; the channel is not closed.
	Watch(stream string) (hints <-chan struct{}, stop func())
}

// AppendRequest asks to append Events, each with ID, Timestamp, Payload and
// Partition set.
type AppendRequest struct {
	Stream   string
	Events   []Event
	Expected ExpectedSequence
}

// ReadRequest asks for up to Limit events with a sequence above After.
type ReadRequest struct {
	Stream    string
	Partition int
	After     int64
	Limit     int
}

// QueryRequest asks for a page of up to Limit events behind Cursor. In the order
// by sequence, the cursor's partitions go on behind (or, descending, before) the
// sequence it names.
type QueryRequest struct {
	Stream string
	Filter Filter
	Cursor Cursor
	Limit  int
}

// DeadLettersRequest asks for a page of up to Limit dead letters behind Cursor.
type DeadLettersRequest struct {
	Stream, Group string
	Cursor        Cursor
	Limit         int
}

// FetchRequest asks for up to Max leases. Empty Partitions means all of the
// group's.
type FetchRequest struct {
	Stream, Group string
	Partitions    []int
	Max           int
	LeaseDuration time.Duration
	ConsumerID    string
}

// RenewRequest asks to extend leases of one group to Duration from now.
type RenewRequest struct {
	Stream, Group string
	Leases        []*Lease
	Duration      time.Duration
}

// SettleRequest asks to settle leases of one group. Only a lease's Partition,
// Sequence, LeaseID and Receipt may be relied on.
type SettleRequest struct {
	Stream, Group string
	Settlements   []Settlement
}

// ReplayRequest asks to open deliveries again: by FromSequence if not 0, by
// FromTime if not zero, else those in Sequences, by partition. Empty Partitions
// means all of the group's; Sequences outside them are left alone.
type ReplayRequest struct {
	Stream, Group string
	Partitions    []int
	FromSequence  int64
	FromTime      time.Time
	Sequences     map[int][]int64
}

// ResetRequest asks to start over: at Start if not nil, else where the group
// was created to start. Empty Partitions means all of the group's.
type ResetRequest struct {
	Stream, Group string
	Partitions    []int
	Start         *Start
}
