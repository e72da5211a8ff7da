// Package delivery is the half of a [rheo.Backend] that is the same for every
// store with an atomic read-modify-write of a ledger: it translates fetch,
// renew and settle requests into operations on a [ledger.Ledger], and what comes
// of them back into leases and results. It is for those who write backends.
//
// A backend loads the ledger of a partition under a lock, or with the version it
// will compare and set; applies a plan to it; and stores the ledger together with
// the dead letters that the plan returned, in one step. A plan may be applied
// again to a partition whose store step lost a race: the later result stands.
// Plans are not safe for concurrent use.
package delivery
