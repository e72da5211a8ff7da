package redis

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
)

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	const width = 64 // partitions asked together
	for partitions := range slices.Chunk(g.record.Partitions, width) {
		found, err := b.deadLetters(ctx, g, partitions, r.Cursor.After, r.Limit+1-len(page.DeadLetters))
		if err != nil {
			return rheo.DeadLetterPage{}, err
		}
		page.DeadLetters = append(page.DeadLetters, found...)
		if len(page.DeadLetters) > r.Limit {
			page.DeadLetters, page.More = page.DeadLetters[:r.Limit], true
			break
		}
	}
	for i := range page.DeadLetters {
		d := &page.DeadLetters[i]
		page.Next.After[d.Partition] = d.Sequence
	}
	return page, b.withEvents(ctx, g, page.DeadLetters)
}

// deadLetters returns up to limit dead letters of the partitions, without their events.
func (b *Backend) deadLetters(ctx context.Context, g *group, partitions []int, after map[int]int64, limit int) ([]rheo.DeadLetter, error) {
	lists, err := ask(ctx, b, func() ([][]string, error) {
		pipeline := b.client.Pipeline()
		answers := make([]*redis.StringSliceCmd, len(partitions))
		for i, p := range partitions {
			answers[i] = pipeline.ZRangeByScore(ctx, g.keys[p].dead, &redis.ZRangeBy{
				Min: "(" + formatInt(after[p]), Max: "+inf", Count: int64(limit),
			})
		}
		_, err := pipeline.Exec(ctx)
		lists := make([][]string, len(partitions))
		for i, answer := range answers {
			lists[i] = answer.Val()
		}
		return lists, err
	})
	if err != nil {
		return nil, err
	}
	var letters []rheo.DeadLetter
	for i, list := range lists {
		for _, member := range list {
			d, err := parseDeadLetter(partitions[i], member)
			if err != nil {
				return nil, err
			}
			letters = append(letters, d)
		}
	}
	return letters[:min(len(letters), limit)], nil
}

// parseDeadLetter reads "sequence:attempts:ms:reason".
func parseDeadLetter(partition int, member string) (rheo.DeadLetter, error) {
	const parts = 4
	d := rheo.DeadLetter{Partition: partition}
	text := strings.SplitN(member, ":", parts)
	if len(text) < parts {
		return d, damaged(partition, "dead letter "+member)
	}
	sequence, errSequence := strconv.ParseInt(text[0], 10, 64)
	attempts, errAttempts := strconv.Atoi(text[1])
	at, errTime := strconv.ParseInt(text[2], 10, 64)
	if errSequence != nil || errAttempts != nil || errTime != nil {
		return d, damaged(partition, "dead letter "+member)
	}
	d.Sequence, d.Attempts, d.DeadLetteredAt, d.Reason = sequence, attempts, time.UnixMilli(at).UTC(), text[3]
	return d, nil
}

// withEvents reads the events of dead letters, in one round trip. One that somebody
// has taken out of the log stays empty.
func (b *Backend) withEvents(ctx context.Context, g *group, letters []rheo.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	entries, err := ask(ctx, b, func() ([]any, error) {
		pipeline := b.client.Pipeline()
		answers := make([]*redis.Cmd, len(letters))
		for i := range letters {
			id := formatInt(letters[i].Sequence)
			answers[i] = pipeline.Do(ctx, "xrange", g.keys[letters[i].Partition].log, id, id)
		}
		_, err := pipeline.Exec(ctx)
		entries := make([]any, len(letters))
		for i, answer := range answers {
			entries[i] = answer.Val()
		}
		return entries, err
	})
	if err != nil {
		return err
	}
	for i := range letters {
		d := &letters[i]
		events, err := decodeEntries(g.stream.name, d.Partition, entries[i])
		if err != nil {
			return err
		}
		if len(events) > 0 {
			d.Event, d.EventID = events[0], events[0].ID
		}
	}
	return nil
}
