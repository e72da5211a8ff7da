// Package embedded is the [rheo.Backend] that keeps a store in one directory, for
// one process: the durable default. It is pure Go and needs no server.
//
// What Append, Settle, Replay, Reset and the creating calls did is on disk when
// they return. Calls that come at the same time share one commit, so the cost of
// the disk's sync is spread over them.
//
// Fetches are not synced: what they hand out, and which attempt it is, is written
// to the operating system before they return, and so survives the process, killed
// at any moment, but not a power loss, after which an event may be delivered again
// under an attempt that it has had before. Renewals are not kept: a lease
// is worth nothing without the process that holds it, so opening a store expires
// them all. Until it is fetched again, an event may still be settled under the
// lease it had before.
//
// # Files
//
//	LOCK          locked by the process that has the store open, which it names
//	FORMAT        says that the store is complete, and in which format
//	rheo.db       everything but the claims: a bbolt database
//	claims-0.log  what was fetched since the ledgers in rheo.db were last written,
//	claims-1.log  by turns
//
// A copy of the directory, made while the store is closed, is a backup.
//
// Every value carries a checksum. What is damaged is reported as an error that
// names the file and, of an event, its stream, partition and sequence; it is never
// skipped.
package embedded
