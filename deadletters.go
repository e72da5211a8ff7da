package rheo

import (
	"context"
	"iter"
	"time"
)

// DeadLetter is a rejected delivery. The event stays in the log.
type DeadLetter struct {
	EventID        string    `json:"event_id"`
	Partition      int       `json:"partition"`
	Sequence       int64     `json:"sequence"`
	Attempts       int       `json:"attempts"` // how often it was handed out
	Reason         string    `json:"reason"`
	DeadLetteredAt time.Time `json:"dead_lettered_at"` // by the store's clock
	Event          Event     `json:"event"`
}

// DeadLetterPage is one page of a group's dead letters.
type DeadLetterPage struct {
	DeadLetters []DeadLetter
	Next        Cursor // continues after this page
	More        bool   // another page may hold something
}

// DeadLettersPage returns up to limit dead letters of the group behind the
// cursor, by partition and sequence. A limit of 0 means [DefaultPageSize]; the
// most is [MaxBatch].
func (i *Instance) DeadLettersPage(ctx context.Context, stream, group string, after Cursor, limit int) (DeadLetterPage, error) {
	n, err := i.onStream(ctx, stream, group)
	if err != nil {
		return DeadLetterPage{}, err
	}
	if limit == 0 {
		limit = DefaultPageSize
	}
	if err := checkRange("limit", int64(limit), 1, MaxBatch); err != nil {
		return DeadLetterPage{}, err
	}
	if err := after.check(BySequence, n); err != nil {
		return DeadLetterPage{}, err
	}
	return i.backend.DeadLetters(ctx, DeadLettersRequest{Stream: stream, Group: group, Cursor: after, Limit: limit})
}

// DeadLetters yields every dead letter of the group, reading page by page. It
// ends after yielding an error.
func (i *Instance) DeadLetters(ctx context.Context, stream, group string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		var cursor Cursor
		for {
			page, err := i.DeadLettersPage(ctx, stream, group, cursor, 0)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, d := range page.DeadLetters {
				if !yield(d, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			cursor = page.Next
		}
	}
}
