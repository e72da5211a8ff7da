package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// create makes the case's stream, with groups of the default configuration. It
// has one partition where the backend has no more; a case that needs them says so.
func (s *subject) create(partitions int, groups ...string) {
	s.Helper()
	if !s.backend.Capabilities().Guarantees.Partitions {
		partitions = 1
	}
	s.noError(s.in.CreateStream(s.Context(), s.stream, rheo.StreamConfig{Partitions: partitions}))
	for _, g := range groups {
		s.group(g, rheo.GroupConfig{})
	}
}

func (s *subject) group(name string, c rheo.GroupConfig) {
	s.Helper()
	s.noError(s.in.CreateGroup(s.Context(), s.stream, name, c))
}

// event makes an event whose payload tells its ID.
func event(id string) rheo.Event {
	return rheo.Event{ID: id, Payload: fmt.Appendf(nil, `{"id":%q}`, id)}
}

// on makes events for one partition.
func on(partition int, ids ...string) []rheo.Event {
	events := make([]rheo.Event, len(ids))
	for i, id := range ids {
		events[i] = event(id)
		events[i].Pinned, events[i].Partition = true, partition
	}
	return events
}

func (s *subject) append(events ...rheo.Event) []rheo.AppendResult {
	s.Helper()
	results, err := s.in.Append(s.Context(), s.stream, events...)
	s.noError(err)
	equal(s, "results of the append", len(results), len(events))
	for _, r := range results {
		s.noError(r.Err)
	}
	return results
}

// fill appends n events to a partition; the one with sequence q gets the ID
// "partition-q".
func (s *subject) fill(partition, n int) {
	s.Helper()
	for n > 0 {
		ids := make([]string, min(n, 1000))
		for i := range ids {
			s.filled[partition]++
			ids[i] = name(partition, int64(s.filled[partition]))
		}
		s.append(on(partition, ids...)...)
		n -= len(ids)
	}
}

// name is the ID that fill gives an event.
func name(partition int, sequence int64) string { return fmt.Sprintf("%d-%d", partition, sequence) }

// read returns the whole log of a partition, and fails if a sequence is not one
// more than the one before.
func (s *subject) read(partition int) []rheo.Event {
	s.Helper()
	var all []rheo.Event
	for {
		events, err := s.in.Read(s.Context(), s.stream, partition, int64(len(all)), rheo.MaxBatch)
		s.noError(err)
		for _, e := range events {
			equal(s, "the next sequence", e.Sequence, int64(len(all)+1))
			all = append(all, e)
		}
		if len(events) == 0 {
			return all
		}
	}
}

func (s *subject) fetchWith(group string, o rheo.FetchOptions) []*rheo.Lease {
	s.Helper()
	leases, err := s.in.Fetch(s.Context(), s.stream, group, o)
	s.noError(err)
	if len(leases) > max(1, o.Max) {
		s.Fatalf("a fetch of at most %d returned %d leases", o.Max, len(leases))
	}
	return leases
}

// fetch leases up to n events. It asks again if a fetch comes back short, which
// a backend is free to do; only an empty one says that nothing is due.
func (s *subject) fetch(group string, n int) []*rheo.Lease {
	s.Helper()
	return s.fetchFor(group, n, rheo.DefaultLeaseDuration)
}

func (s *subject) fetchFor(group string, n int, d time.Duration) []*rheo.Lease {
	s.Helper()
	var leases []*rheo.Lease
	for len(leases) < n {
		more := s.fetchWith(group, rheo.FetchOptions{Max: min(n-len(leases), rheo.MaxBatch), LeaseDuration: d})
		if len(more) == 0 {
			break
		}
		leases = append(leases, more...)
	}
	return leases
}

// take leases as many events as sequences are named, of a stream with one
// partition, and fails unless it gets these.
func (s *subject) take(group string, sequences ...int64) []*rheo.Lease {
	s.Helper()
	leases := s.fetch(group, len(sequences))
	equalList(s, "sequences leased", sequencesOf(leases), sequences)
	return leases
}

// due leases everything that is due, and fails unless that are these sequences in
// this order.
func (s *subject) due(group string, sequences ...int64) []*rheo.Lease {
	s.Helper()
	leases := s.fetch(group, 2*rheo.MaxBatch)
	equalList(s, "sequences due", sequencesOf(leases), sequences)
	return leases
}

func sequencesOf(leases []*rheo.Lease) []int64 {
	sequences := make([]int64, len(leases))
	for i, l := range leases {
		sequences[i] = l.Sequence
	}
	return sequences
}

func idsOf(leases []*rheo.Lease) []string {
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return ids
}

func eventIDs(events []rheo.Event) []string {
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].ID
	}
	return ids
}

func (s *subject) ack(leases ...*rheo.Lease) {
	s.Helper()
	s.noError(s.in.Ack(s.Context(), leases...))
}

func (s *subject) nack(reason string, delay time.Duration, leases ...*rheo.Lease) {
	s.Helper()
	s.noError(s.in.Nack(s.Context(), reason, delay, leases...))
}

func (s *subject) reject(reason string, leases ...*rheo.Lease) {
	s.Helper()
	s.noError(s.in.Reject(s.Context(), reason, leases...))
}

func (s *subject) release(leases ...*rheo.Lease) {
	s.Helper()
	s.noError(s.in.Release(s.Context(), leases...))
}

func (s *subject) settle(settlements ...rheo.Settlement) []error {
	s.Helper()
	results, err := s.in.Settle(s.Context(), settlements...)
	s.noError(err)
	equal(s, "results of the settle", len(results), len(settlements))
	return results
}

func (s *subject) renew(d time.Duration, leases ...*rheo.Lease) []rheo.RenewResult {
	s.Helper()
	results, err := s.in.Renew(s.Context(), d, leases...)
	s.noError(err)
	equal(s, "results of the renewal", len(results), len(leases))
	return results
}

// drain acks whatever is due, fetch by fetch, until nothing is, and returns the
// IDs in the order in which they came.
func (s *subject) drain(group string) []string {
	s.Helper()
	var ids []string
	for {
		leases := s.fetchWith(group, rheo.FetchOptions{Max: 1000})
		if len(leases) == 0 {
			return ids
		}
		ids = append(ids, idsOf(leases)...)
		s.ack(leases...)
	}
}

func (s *subject) replay(group string, selection rheo.ReplaySelection) int64 {
	s.Helper()
	n, err := s.in.Replay(s.Context(), s.stream, group, selection)
	s.noError(err)
	return n
}

func (s *subject) reset(group string, o rheo.ResetOptions) {
	s.Helper()
	o.Confirm = true
	s.noError(s.in.ResetGroup(s.Context(), s.stream, group, o))
}

func (s *subject) info(group string) rheo.GroupInfo {
	s.Helper()
	info, err := s.in.GroupInfo(s.Context(), s.stream, group)
	s.noError(err)
	return info
}

func (s *subject) lag(group string) int64 {
	s.Helper()
	lag, err := s.in.Lag(s.Context(), s.stream, group)
	s.noError(err)
	return lag.Lag
}

// frontier is where the group is in partition 0.
func (s *subject) frontier(group string) int64 {
	s.Helper()
	return s.info(group).Partitions[0].Frontier
}

func (s *subject) deadLetters(group string) []rheo.DeadLetter {
	s.Helper()
	var all []rheo.DeadLetter
	for d, err := range s.in.DeadLetters(s.Context(), s.stream, group) {
		s.noError(err)
		all = append(all, d)
	}
	return all
}

// dead fails unless the group's dead letters are those with these sequences.
func (s *subject) dead(group string, sequences ...int64) []rheo.DeadLetter {
	s.Helper()
	letters := s.deadLetters(group)
	got := make([]int64, len(letters))
	for i := range letters {
		got[i] = letters[i].Sequence
	}
	equalList(s, "sequences of the dead letters", got, sequences)
	return letters
}

func (s *subject) query(q rheo.Query) []string {
	s.Helper()
	events, err := s.in.Query(s.Context(), s.stream, q)
	s.noError(err)
	ids := eventIDs(events)
	if !s.backend.Capabilities().Guarantees.OrderedScan {
		slices.Sort(ids)
	}
	return ids
}

// selects fails unless the condition finds exactly the IDs, which are given in
// one string, in the order of the log.
func (s *subject) selects(path string, op rheo.Op, value any, ids string) {
	s.Helper()
	want := strings.Fields(ids)
	if !s.backend.Capabilities().Guarantees.OrderedScan {
		slices.Sort(want)
	}
	what := fmt.Sprintf("%s %s %#v", path, op, value)
	equalList(s, what, s.query(rheo.Query{Where: []rheo.Condition{rheo.Where(path, op, value)}}), want)
}
