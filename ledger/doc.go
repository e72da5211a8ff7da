// Package ledger is the delivery state machine of one group in one partition
// of one stream: which events have been offered, to whom they are leased, and
// what became of them.
//
// It is pure: no I/O, no clock, no goroutines, the standard library only. Time
// comes in as an argument, in Unix microseconds, and only differences of order
// matter. A [Ledger] is not safe for concurrent use. A backend keeps one per
// (stream, group, partition), and guards each change with whatever it has: a
// mutex, a row lock, a compare-and-swap of the encoded form.
//
// # The model
//
// A ledger is a cursor and a list of runs.
//
//   - The cursor is the highest sequence ever offered to the group. What lies
//     above it was never offered.
//   - A run is a range of sequences, none above the cursor, whose deliveries
//     are open and in the same state: available or leased.
//   - Every sequence up to the cursor that lies in no run is terminal: acked,
//     or rejected. Which of the two is not kept here; rejected deliveries are
//     returned as [Dead] at the moment of rejection, for the backend to file.
//   - So the frontier, the highest F such that all of 1..F is terminal, is
//     not stored: it ends where the first run begins.
//
// The size of a ledger is therefore the number of its holes. A million acked
// events cost nothing, and so do a hundred leased by one fetch: they are one
// run, which settling them removes.
//
//	          fetch                     ack, reject, nack on the last attempt
//	available ─────▶ leased ──────────────────────────────────────▶ terminal
//	    ▲              │                                                │
//	    ├──────────────┘ nack, release                                  │
//	    └────────────── replay (Reopen, also from leased) ◀─────────────┘
//
// A lease that expires stays leased, and its holder may still settle or renew
// it, until another fetch takes it. That fetch counts one attempt more, so a
// delivery whose holders die is counted too; when the attempts are used up,
// the fetch rejects it instead.
//
// # Fencing
//
// Every fetch brings a claim, a number never used before for this ledger.
// Settling and renewing name the claim; what is no longer leased under it is
// reported as not held, and is left alone. Reopening a sequence ends its lease.
//
// # Invariants
//
// After every method, whatever the arguments:
//
//  1. Runs are ascending and disjoint, and lie within 1..cursor.
//  2. Two runs that touch differ in state, attempt, time, claim, consumer or
//     reason: there is one representation of a state, and so one encoding.
//  3. A leased run has Attempt >= 1. An available run has Attempt >= 0, and
//     neither a claim nor a consumer.
//  4. The cursor never moves down, except by Reset and UnmarshalBinary. Only
//     Claim, Restore and Reset move it, and never past a sequence that they do
//     not hand out, cover or declare terminal.
//  5. A terminal sequence stays terminal, except by Reopen, ReopenEach,
//     Restore and Reset.
//
// # Cost
//
// The runs are kept in chunks of at most 64. An operation rewrites only the
// chunks that it changes, once each however many items fall in it; it finds
// them by binary search, or by a summary of what in each can be due. Claiming
// new events looks at no run but the last, as long as nothing can be due.
package ledger
