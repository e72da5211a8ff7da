package redis

import (
	"context"
	"time"

	"github.com/rheo-go/rheo"
)

var appendScript = load("known", "append")

// batch is what an append brings to one partition.
type batch struct {
	partition int
	places    []int       // in the request, of the first event of each ID
	twins     map[int]int // place of an event → that of the first of its ID
	ordered   bool        // the IDs are UUIDv7s that rise
}

// Append implements [rheo.Backend].
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	batches := batchesOf(r.Events)
	calls := make([]*call, len(batches))
	for i := range batches {
		if calls[i], err = b.appendCall(s, &batches[i], r); err != nil {
			return nil, err
		}
	}
	_, _ = b.run(ctx, writing, calls...) // each call has its own error
	results := make([]rheo.AppendResult, len(r.Events))
	appended := false
	for i, c := range calls {
		if c.err == nil {
			c.err = batches[i].read(results, r, c.reply)
		}
		if c.err == nil {
			appended = true
			continue
		}
		c.err = b.explain(ctx, s, "", c.err)
		if err == nil {
			err = c.err
		}
		batches[i].fail(results, r, c.err)
	}
	if !appended {
		return nil, err
	}
	b.hub(r.Stream).Wake()
	return results, err
}

// batchesOf sorts the events by partition, in the order of their first.
func batchesOf(events []rheo.Event) []batch {
	var batches []batch
	at := make(map[int]int)
	for i := range events {
		p := events[i].Partition
		known, ok := at[p]
		if !ok {
			known = len(batches)
			at[p] = known
			batches = append(batches, batch{partition: p, places: make([]int, 0, len(events)-i)})
		}
		batches[known].places = append(batches[known].places, i)
	}
	for i := range batches {
		one := &batches[i]
		if one.ordered = one.rise(events); !one.ordered {
			one.separateTwins(events)
		}
	}
	return batches
}

// rise reports whether the IDs are UUIDv7s that rise, as those that Rheo makes do.
func (one *batch) rise(events []rheo.Event) bool {
	last := ""
	for _, at := range one.places {
		id := events[at].ID
		if id <= last || !isUUIDv7(id) {
			return false
		}
		last = id
	}
	return true
}

// isUUIDv7 is what "made" is to the scripts.
func isUUIDv7(id string) bool {
	const form = "xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx"
	if len(id) != len(form) {
		return false
	}
	for i := range len(form) {
		c := id[i]
		if form[i] != c && (form[i] != 'x' || (c < '0' || c > '9') && (c < 'a' || c > 'f')) {
			return false
		}
	}
	return true
}

// separateTwins leaves only the first event of each ID in its place.
func (one *batch) separateTwins(events []rheo.Event) {
	first := make(map[string]int, len(one.places))
	places := one.places[:0]
	for _, at := range one.places {
		id := events[at].ID
		earlier, twin := first[id]
		if !twin {
			first[id] = at
			places = append(places, at)
			continue
		}
		if one.twins == nil {
			one.twins = make(map[int]int)
		}
		one.twins[at] = earlier
	}
	one.places = places
}

func (b *Backend) appendCall(s *stream, one *batch, r rheo.AppendRequest) (*call, error) {
	expected := ""
	if sequence, ok := r.Expected[one.partition]; ok {
		expected = formatInt(sequence)
	}
	const before = 5
	args := make([]any, before+len(one.places))
	args[0], args[1] = b.override(), formatInt(b.options.IdempotencyWindow.Milliseconds())
	args[2], args[3], args[4] = expected, flag(one.rising(r.Events)), flag(one.ordered)
	for i, at := range one.places {
		text, err := encodeEvent(&r.Events[at])
		if err != nil {
			return nil, err
		}
		args[before+i] = text
	}
	keys := &s.keys[one.partition]
	return b.call(appendScript, []string{keys.meta, keys.log, keys.ids[0], keys.ids[1], keys.late}, args...), nil
}

// flag is a bool as the script takes it.
func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// rising reports whether the timestamps never fall.
func (one *batch) rising(events []rheo.Event) bool {
	for i, at := range one.places[1:] {
		if events[at].Timestamp.Before(events[one.places[i]].Timestamp) {
			return false
		}
	}
	return true
}

// fail fills in the results of a partition that was not appended to.
func (one *batch) fail(results []rheo.AppendResult, r rheo.AppendRequest, err error) {
	for _, at := range one.places {
		results[at] = rheo.AppendResult{Event: r.Events[at], Err: err}
	}
	for at := range one.twins {
		results[at] = rheo.AppendResult{Event: r.Events[at], Err: err}
	}
}

// read fills in the results of one partition.
func (one *batch) read(results []rheo.AppendResult, r rheo.AppendRequest, reply any) error {
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return damaged(one.partition, "the script's answer is another's")
	}
	next, _ := pair[0].(int64)
	held, ok := pair[1].([]any)
	if !ok {
		return rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d; nothing was appended",
			one.partition, r.Stream, next, r.Expected[one.partition])
	}
	for place, at := range one.places {
		if len(held) > 0 && integers(held[0])[0] == int64(place+1) {
			if err := one.duplicate(&results[at], r.Events[at], held[0]); err != nil {
				return err
			}
			held = held[1:]
			continue
		}
		next++
		results[at].Event = r.Events[at]
		results[at].Sequence = next
	}
	for at, first := range one.twins {
		results[at] = rheo.AppendResult{Event: results[first].Clone(), Duplicate: true}
	}
	return nil
}

// duplicate reads {place, sequence, entry}; there is no entry if it has been taken out
// of the log.
func (one *batch) duplicate(result *rheo.AppendResult, given rheo.Event, reply any) error {
	triple, _ := reply.([]any)
	result.Duplicate = true
	if len(triple) == 3 && triple[2] != nil {
		e, err := decodeEntry(given.Stream, one.partition, triple[2])
		result.Event = e
		return err
	}
	result.Event = given.Clone()
	result.Sequence = integers(reply)[1]
	return nil
}

// integers reads the numbers that a list begins with.
func integers(reply any) []int64 {
	list, _ := reply.([]any)
	numbers := make([]int64, 0, len(list))
	for _, item := range list {
		n, ok := item.(int64)
		if !ok {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// millis is a duration in ms, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
