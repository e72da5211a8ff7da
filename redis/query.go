package redis

import (
	"context"
	"errors"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
)

// Read implements [rheo.Backend].
func (b *Backend) Read(ctx context.Context, r rheo.ReadRequest) ([]rheo.Event, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	return b.read(ctx, part{s, r.Partition}, exact(r.After)+1, mostSequence, r.Limit, false)
}

// read returns up to limit events from first to last, beginning at either end.
func (b *Backend) read(ctx context.Context, p part, first, last int64, limit int, descending bool) ([]rheo.Event, error) {
	type answer struct {
		known   bool // the partition is there
		high    int64
		entries any
	}
	keys := &p.stream.keys[p.partition]
	a, err := ask(ctx, b, func() (a answer, err error) {
		pipeline := b.client.Pipeline()
		high := pipeline.HGet(ctx, keys.meta, "high")
		var entries *redis.Cmd
		if descending {
			entries = pipeline.Do(ctx, "xrevrange", keys.log, last, first, "count", limit)
		} else {
			entries = pipeline.Do(ctx, "xrange", keys.log, first, last, "count", limit)
		}
		_, _ = pipeline.Exec(ctx) // each answer has its own error
		a.high, err = high.Int64()
		if errors.Is(err, redis.Nil) {
			return a, nil
		}
		a.known, a.entries = true, entries.Val()
		if err == nil {
			err = entries.Err()
		}
		return a, err
	})
	if err != nil {
		return nil, err
	}
	if !a.known {
		return nil, b.lostPartition(ctx, p.stream, keys.meta, nil)
	}
	events, err := decodeEntries(p.stream.name, p.partition, a.entries)
	if err == nil && len(events) == 0 && first <= min(last, a.high) {
		err = b.presence(ctx, p)
	}
	return events, err
}

// presence makes sure that the log is there, of which something was expected.
func (b *Backend) presence(ctx context.Context, p part) error {
	key := p.stream.keys[p.partition].log
	there, err := ask(ctx, b, func() (int64, error) { return b.client.Exists(ctx, key).Result() })
	if err != nil || there > 0 {
		return err
	}
	return lostLog(p.stream.name, key, nil)
}

// Query implements [rheo.Backend]. It walks the log, between the bounds that the
// filter sets.
func (b *Backend) Query(ctx context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return rheo.Page{}, err
	}
	return scan.Page(ctx, source{b, s, &r.Filter}, r)
}

// source is a stream as package scan reads it.
type source struct {
	backend *Backend
	stream  *stream
	filter  *rheo.Filter
}

func (s source) High(ctx context.Context, partition int) (int64, error) {
	highs, err := s.backend.highs(ctx, []part{{s.stream, partition}})
	if err != nil {
		return 0, err
	}
	return highs[0], nil
}

// Walk reads pages of about as many bytes as are worth a round trip.
func (s source) Walk(ctx context.Context, partition int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	const least, most, small, large = 16, 1024, 128 << 10, 1 << 20
	return func(yield func(*rheo.Event, error) bool) {
		first, err := s.firstInTime(ctx, partition, first)
		for count := 128; err == nil && first <= last; {
			var events []rheo.Event
			events, err = s.backend.read(ctx, part{s.stream, partition}, first, last, count, descending)
			size := 0
			for i := range events {
				size += len(events[i].Payload)
				if !yield(&events[i], nil) {
					return
				}
			}
			if len(events) < count {
				break
			}
			if end := events[len(events)-1].Sequence; descending {
				last = end - 1
			} else {
				first = end + 1
			}
			switch {
			case size < small:
				count = min(2*count, most)
			case size > large:
				count = max(count/2, least)
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// firstInTime moves the beginning of a walk up to where the filter's time begins:
// below it no event has that timestamp or a later one.
func (s source) firstInTime(ctx context.Context, partition int, first int64) (int64, error) {
	if s.filter.From.IsZero() {
		return first, nil
	}
	found, err := s.backend.seekTime(ctx, s.stream, []int{partition}, s.filter.From)
	if err != nil {
		return 0, err
	}
	return max(first, found[0]), nil
}

// Locate implements [scan.Source]: IDs are kept for a while, and not for ever.
func (s source) Locate(context.Context, int, string) (sequence int64, ok bool, err error) {
	return 0, false, nil
}
