package mongo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

// burial is deliveries rejected at once and alike.
type burial struct {
	From     int64  `bson:"from"`
	To       int64  `bson:"to"`
	Attempts int    `bson:"attempts"`
	Reason   string `bson:"reason"`
	At       int64  `bson:"at"` // Unix microseconds
}

func (d *burial) count() int64 { return d.To - d.From + 1 }

// page says where dead letters are that have been moved out of a ledger's document.
// Nothing but such a reference makes them count: a page without one is left over
// from a change that was not made, or was undone.
type page struct {
	ID   bson.ObjectID `bson:"id"`
	From int64         `bson:"from"`
	To   int64         `bson:"to"`
}

// pageDocument never changes.
type pageDocument struct {
	ID     bson.ObjectID `bson:"_id"`
	Ledger string        `bson:"ledger"`
	Dead   []burial      `bson:"dead"`
}

// What a ledger's document holds of dead letters at most, and a page.
const (
	mostBurials = 500
	mostReasons = 1 << 20 // bytes
)

// bury adds the dead letters of what the ledger has rejected. Once there are many
// in its document, they go to a page.
func (w *swap) bury(dead []ledger.Dead, now time.Time) {
	for _, d := range dead {
		w.new.Dead = append(w.new.Dead, burial{d.From, d.To, d.Attempts, d.Reason, now.UnixMicro()})
		w.new.Letters += d.To - d.From + 1
	}
	if len(dead) == 0 || !tooMany(w.new.Dead) {
		return
	}
	for _, part := range portions(w.new.Dead) {
		w.spillTo(part)
	}
	w.new.Dead = []burial{}
}

func (w *swap) spillTo(dead []burial) {
	d := &pageDocument{ID: bson.NewObjectID(), Ledger: w.old.ID, Dead: dead}
	ref := page{ID: d.ID, From: dead[0].From, To: dead[0].To}
	for _, b := range dead {
		ref.From, ref.To = min(ref.From, b.From), max(ref.To, b.To)
	}
	w.spill, w.new.Pages = append(w.spill, d), append(w.new.Pages, ref)
}

func tooMany(dead []burial) bool {
	bytes := 0
	for i := range dead {
		bytes += len(dead[i].Reason)
	}
	return len(dead) >= mostBurials || bytes >= mostReasons
}

// portions sorts dead letters and cuts them into pages.
func portions(dead []burial) [][]burial {
	slices.SortFunc(dead, func(x, y burial) int { return cmp.Compare(x.From, y.From) })
	var parts [][]burial
	from, bytes := 0, 0
	for i := range dead {
		bytes += len(dead[i].Reason)
		if i+1-from == mostBurials || bytes >= mostReasons || i == len(dead)-1 {
			parts = append(parts, dead[from:i+1:i+1])
			from, bytes = i+1, 0
		}
	}
	return parts
}

// storePages writes pages before the ledgers that refer to them.
func (b *Backend) storePages(ctx context.Context, swaps []*swap) error {
	var pages []*pageDocument
	for _, w := range swaps {
		pages = append(pages, w.spill...)
	}
	if len(pages) == 0 {
		return nil
	}
	for lost := 0; ; lost++ {
		_, err := b.collections.letters.InsertMany(ctx, pages, options.InsertMany().SetOrdered(false))
		switch {
		case err == nil || lost > 0 && onlyDuplicates(err):
			return nil
		case !b.unclear(err) || lost == mostLost || hostSession(ctx) != nil:
			return b.failure(err, reading) // nothing refers to them
		}
	}
}

// dropPages deletes pages that nothing refers to any more. Those that stay, because
// this fails, do no harm.
func (b *Backend) dropPages(ctx context.Context, pages []page) {
	if len(pages) == 0 {
		return
	}
	ids := make([]bson.ObjectID, len(pages))
	for i, p := range pages {
		ids[i] = p.ID
	}
	_, _ = b.collections.letters.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
}

// errPageGone says that a page was dropped after its reference was read.
var errPageGone = errors.New("a page of dead letters is gone")

// readPages returns what the pages hold.
func (b *Backend) readPages(ctx context.Context, pages []page) ([]burial, error) {
	if len(pages) == 0 {
		return nil, nil
	}
	ids := make([]bson.ObjectID, len(pages))
	for i, p := range pages {
		ids[i] = p.ID
	}
	var found []pageDocument
	cursor, err := b.collections.letters.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	if len(found) < len(pages) {
		return nil, errPageGone
	}
	var dead []burial
	for i := range found {
		dead = append(dead, found[i].Dead...)
	}
	return dead, nil
}

// exhume drops the dead letters of what a replay has opened.
func (b *Backend) exhume(ctx context.Context, w *swap, r delivery.Reopened) (dropped []page, err error) {
	left := func(dead []burial) (rest []burial) {
		for _, d := range dead {
			w.new.Letters -= d.count()
			for _, part := range d.without(r) {
				w.new.Letters += part.count()
				rest = append(rest, part)
			}
		}
		return rest
	}
	w.new.Dead = append([]burial{}, left(w.old.Dead)...)
	w.new.Pages = []page{}
	for _, p := range w.old.Pages {
		if touches(r, p.From, p.To) {
			dropped = append(dropped, p)
		} else {
			w.new.Pages = append(w.new.Pages, p)
		}
	}
	dead, err := b.readPages(ctx, dropped)
	if err != nil {
		return nil, err
	}
	for _, part := range portions(left(dead)) {
		w.spillTo(part)
	}
	return dropped, nil
}

// touches reports whether the replay may have opened something between.
func touches(r delivery.Reopened, from, to int64) bool {
	if r.From > 0 {
		return to >= r.From
	}
	at, _ := slices.BinarySearch(r.Sequences, from)
	return at < len(r.Sequences) && r.Sequences[at] <= to
}

// without returns what is left of the burial once the replay has opened its own.
func (d burial) without(r delivery.Reopened) []burial {
	part := func(from, to int64) burial {
		p := d
		p.From, p.To = from, to
		return p
	}
	switch {
	case !touches(r, d.From, d.To):
		return []burial{d}
	case r.From > d.From:
		return []burial{part(d.From, r.From-1)}
	case r.From > 0:
		return nil
	}
	var rest []burial
	from := d.From
	at, _ := slices.BinarySearch(r.Sequences, from)
	for ; at < len(r.Sequences) && r.Sequences[at] <= d.To; at++ {
		if s := r.Sequences[at]; s > from {
			rest = append(rest, part(from, s-1))
		}
		from = r.Sequences[at] + 1
	}
	if from <= d.To {
		rest = append(rest, part(from, d.To))
	}
	return rest
}
