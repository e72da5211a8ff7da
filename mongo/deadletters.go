package mongo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// letter is a dead letter without its event.
type letter struct {
	partition int
	sequence  int64
	burial
}

// DeadLetters implements [rheo.Backend].
func (b *Backend) DeadLetters(ctx context.Context, r rheo.DeadLettersRequest) (rheo.DeadLetterPage, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	letters, err := b.letters(ctx, g, r.Cursor.After, r.Limit+1)
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	page := rheo.DeadLetterPage{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After)}, More: len(letters) > r.Limit}
	if page.Next.After == nil {
		page.Next.After = make(map[int]int64)
	}
	letters = letters[:min(len(letters), r.Limit)]
	stretches := make([]stretch, len(letters))
	for i, l := range letters {
		stretches[i] = stretch{l.partition, l.sequence, l.sequence}
	}
	have, err := b.load(ctx, g.stream, joined(stretches))
	if err != nil {
		return rheo.DeadLetterPage{}, err
	}
	for _, l := range letters {
		e, err := have.event(l.partition, l.sequence)
		if err != nil {
			return rheo.DeadLetterPage{}, err
		}
		page.DeadLetters = append(page.DeadLetters, rheo.DeadLetter{
			EventID: e.ID, Partition: l.partition, Sequence: l.sequence, Attempts: l.Attempts,
			Reason: l.Reason, DeadLetteredAt: time.UnixMicro(l.At).UTC(), Event: e,
		})
		page.Next.After[l.partition] = l.sequence
	}
	return page, nil
}

// letters returns the first dead letters behind the places named, by partition and
// sequence. A page that is gone was replaced by a change since: then it looks anew.
func (b *Backend) letters(ctx context.Context, g *group, after map[int]int64, limit int) ([]letter, error) {
	var p patience
	for {
		rows, err := b.ledgersOf(ctx, g, g.plan.Partitions)
		if err != nil {
			return nil, err
		}
		var all []letter
		for _, r := range rows {
			if len(all) == limit {
				break
			}
			var more []letter
			if more, err = b.lettersIn(ctx, r, after[r.Partition], limit-len(all)); err != nil {
				break
			}
			all = append(all, more...)
		}
		if !errors.Is(err, errPageGone) {
			return all, err
		}
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// lettersIn returns the first dead letters of one ledger behind a sequence. Pages
// overlap: it reads as many as may hold one of them.
func (b *Backend) lettersIn(ctx context.Context, r *row, after int64, limit int) ([]letter, error) {
	const together = 8
	dead := r.Dead
	pages := slices.DeleteFunc(slices.Clone(r.Pages), func(p page) bool { return p.To <= after })
	slices.SortFunc(pages, func(x, y page) int { return cmp.Compare(x.From, y.From) })
	for len(pages) > 0 && countBetween(dead, after, pages[0].From) < limit {
		n := min(together, len(pages))
		more, err := b.readPages(ctx, pages[:n])
		if err != nil {
			return nil, err
		}
		dead, pages = append(dead, more...), pages[n:]
	}
	slices.SortFunc(dead, func(x, y burial) int { return cmp.Compare(x.From, y.From) })
	var letters []letter
	for _, d := range dead {
		for sequence := max(d.From, after+1); sequence <= d.To; sequence++ {
			if len(letters) == limit {
				return letters, nil
			}
			letters = append(letters, letter{r.Partition, sequence, d})
		}
	}
	return letters, nil
}

// countBetween counts the sequences above after and below end.
func countBetween(dead []burial, after, end int64) int {
	var n int64
	for i := range dead {
		n += max(0, min(dead[i].To, end-1)-max(dead[i].From, after+1)+1)
	}
	return int(n)
}
