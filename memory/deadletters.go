package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// deadLetter is a rejected delivery; the event itself is in the log.
type deadLetter struct {
	sequence int64
	attempts int
	reason   string
	at       time.Time
}

func bySequence(d deadLetter, sequence int64) int { return cmp.Compare(d.sequence, sequence) }

// bury adds the dead letters of what a ledger has rejected. The caller holds mu.
func (pr *progress) bury(dead []ledger.Dead, now time.Time) {
	for _, d := range dead {
		for sequence := d.From; sequence <= d.To; sequence++ {
			at, _ := slices.BinarySearchFunc(pr.dead, sequence, bySequence)
			pr.dead = slices.Insert(pr.dead, at, deadLetter{sequence, d.Attempts, d.Reason, now})
		}
	}
}

// exhume drops the dead letters of what a replay has opened. The caller holds mu.
func (pr *progress) exhume(r delivery.Reopened) {
	if r.From > 0 {
		at, _ := slices.BinarySearchFunc(pr.dead, r.From, bySequence)
		pr.dead = pr.dead[:at]
		return
	}
	pr.dead = slices.DeleteFunc(pr.dead, func(d deadLetter) bool {
		_, found := slices.BinarySearch(r.Sequences, d.sequence)
		return found
	})
}

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	s, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	for _, p := range g.config.Partitions {
		for _, d := range g.progress[p].deadAfter(page.Next.After[p], r.Limit+1-len(page.DeadLetters)) {
			if len(page.DeadLetters) == r.Limit {
				page.More = true
				return page, nil
			}
			page.DeadLetters = append(page.DeadLetters, s.describe(p, d))
			page.Next.After[p] = d.sequence
		}
	}
	return page, nil
}

func (pr *progress) deadAfter(sequence int64, limit int) []deadLetter {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	at, _ := slices.BinarySearchFunc(pr.dead, sequence+1, bySequence)
	return slices.Clone(pr.dead[at:min(len(pr.dead), at+limit)])
}

func (s *stream) describe(p int, d deadLetter) rheo.DeadLetter {
	e := s.partitions[p].view().at(d.sequence).Clone()
	return rheo.DeadLetter{
		EventID: e.ID, Partition: p, Sequence: d.sequence, Attempts: d.attempts,
		Reason: d.reason, DeadLetteredAt: d.at, Event: e,
	}
}
