// Package bench measures Rheo's stores beside yardsticks in the same run: the
// raw engine doing the bare minimum for the same bytes, and the peers that a
// user would pick.
//
// Three figures are taken of each [Subject]:
//
//   - [MeasureAppend]: events per second that callers append in batches, each
//     batch confirmed before the caller goes on;
//   - [MeasureCycle]: events per second through append, delivery to one durable
//     consumer and settlement, with as many consumers as callers, while appends go
//     on or, with [Workload].Backlog, after them;
//   - [MeasureLatency]: how long single events at a steady rate take from the call
//     of Append to their handler.
//
// Of subjects in PostgreSQL the first two also tell the bytes of WAL per event, of
// the whole server.
//
// All subjects store the same events ([Event], encoded by [Event.AppendRecord]
// where the store takes bytes), in a new directory, and are bounded both in
// count ([Workload].Events) and in time ([Workload].Timeout). Events are made
// before the clock starts, and opening, subscribing and closing are not timed.
//
// [Subjects], [SQLiteSubjects], [PostgresSubjects] and [RedisSubjects] are where subjects are
// registered. Those in PostgreSQL each have a database of their own, on the server
// that RHEO_TEST_POSTGRES_URL names or on a throwaway one on the loopback
// interface, with the settings of internal/testservers. Run them with
//
//	GOWORK=off go run ./cmd/compare --events 50000 --batch 100 --callers 1,8
//	GOWORK=off go run ./cmd/compare --only sqlite,postgres
//	GOWORK=off go run ./cmd/compare --only postgres --latency 100
//	GOWORK=off go test -bench . -benchmem
//
// GOWORK=off, because this module stays out of go.work: the peers' dependencies
// are nothing that a first build of Rheo should fetch.
//
// Disks are noisy, and shared machines more so. Compare figures of one run
// only, and prefer the command, which takes the subjects in turn, round by
// round, and reports the median of what they did.
package bench
