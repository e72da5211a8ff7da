// Package rheo gives a Go service durable consumer groups over an immutable,
// searchable event log, on a store it already has. There is no broker: the host
// embeds the library, and owns every pool, client and goroutine.
//
// # Promises
//
// At least once. An event appended to a stream is handed to each of its groups
// until that group acks or rejects it. A handler that crashes, a process that is
// killed, a machine that is lost cost a redelivery, never an event. Handlers
// should therefore be idempotent, or settle in the same transaction as their
// effect where the backend can ([Guarantees].TransactionalSettle).
//
// Fenced. A delivery is held under a lease, and every settle and renewal names
// it. A lease that was settled, taken by another consumer after it expired, or
// superseded by a replay is refused with [ErrStaleLease], by the store, in the
// same step as the change it would have made. No clocks of two machines are ever
// compared: leases expire by the store's clock.
//
// In order within a partition. Each partition numbers its events 1, 2, 3, …
// without gaps; whoever has seen a sequence can read every lower one. A group
// hands out lowest sequences first; with [OrderingPartition] an event that fails
// also holds back those behind it.
//
// Counted. The store counts an attempt when it hands an event out, so an event
// that kills its handler's process is counted too. After MaxAttempts it becomes a
// dead letter, with its reason, and stays in the log.
//
// Idempotent. Appending an ID that the partition already holds appends nothing,
// so an append whose outcome is unknown is simply repeated.
//
// Consumption never deletes an event, and no group knows of another.
//
// # What a crash does
//
// Of a consumer: its leases expire, and others get the events with the next
// attempt. Of a producer in the middle of an append: the batch is there as a
// whole in each partition, or not at all. Of the store: what was confirmed is
// there when it is back, to the degree that the backend is durable; leases may be
// forgotten, which costs a redelivery; the runtimes wait and go on by themselves.
//
// # Words
//
// A stream is a named log, cut into partitions. A group is a named, durable,
// independent reader of one stream. A delivery is one event as one group sees it:
// available, leased, acked or rejected. The cursor is the highest sequence ever
// offered to a group in a partition; the frontier is the highest sequence up to
// which all is acked or rejected; lag is the partition's last sequence, its high
// watermark, less the frontier.
//
// # Use
//
// Open a backend, make an [Instance] over it, create streams and groups, and run
// a [Group] with a [Handler]:
//
//	store, err := embedded.Open("./rheo-data", nil)
//	…
//	r, err := rheo.New(store, nil)
//	…
//	group, err := rheo.NewGroup(r, rheo.GroupOptions{
//		Stream: "orders", Group: "billing", Handler: bill,
//	})
//	…
//	err = group.Run(ctx) // until ctx ends; then it drains
//
// A pipeline that pulls uses a [Producer] in the Group's place.
// [Instance.Fetch] and [Instance.Settle] are the level below, for runtimes of
// one's own. Writers of backends start at [Backend] and package backendtest.
package rheo
