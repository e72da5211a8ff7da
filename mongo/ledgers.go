package mongo

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// row is a ledger's document: how far a group is in a partition, with what it has
// rejected there. It is replaced as a whole, if its version still is the one that
// was read.
type row struct {
	ID        string  `bson:"_id"` // made of the group's ID and the partition
	Stream    string  `bson:"stream"`
	Group     string  `bson:"group"`
	Partition int     `bson:"partition"`
	Version   int64   `bson:"version"` // random: by it the writer knows its own again
	Before    []int64 `bson:"before"`  // the versions before, the latest first
	Cursor    int64   `bson:"cursor"`  // for people; Data has it too
	Frontier  int64   `bson:"frontier"`
	Data      []byte  `bson:"data"` // the ledger's encoding

	Dead    []burial `bson:"dead"`    // dead letters, in the order of their rejection
	Pages   []page   `bson:"pages"`   // where more of them are
	Letters int64    `bson:"letters"` // how many, all together
}

// versionsKept is how many earlier versions a row names. A writer whose answer was
// lost finds its own among them, unless that many others have come since.
const versionsKept = 16

func (r *row) decode() (*ledger.Ledger, error) {
	l := new(ledger.Ledger)
	if err := l.UnmarshalBinary(r.Data); err != nil {
		return nil, rheo.WrapError(rheo.ErrFailed, err, "the ledger %s cannot be read", r.ID)
	}
	return l, nil
}

// next returns the row that takes this one's place, with the ledger in it.
func (r *row) next(l *ledger.Ledger) *row {
	n := *r
	n.Version = newToken()
	n.Before = append([]int64{r.Version}, r.Before[:min(len(r.Before), versionsKept-1)]...)
	n.Dead, n.Pages = slices.Clone(r.Dead), slices.Clone(r.Pages)
	n.put(l)
	return &n
}

func (r *row) put(l *ledger.Ledger) {
	r.Cursor, r.Frontier = l.Cursor(), l.Frontier()
	r.Data, _ = l.MarshalBinary() // it never fails
}

func rowID(g *group, partition int) string {
	return g.document.ID.Hex() + "/" + strconv.Itoa(partition)
}

// ledgersOf reads the ledgers of the partitions, which come back in that order. The
// first to look makes those that are not there yet.
func (b *Backend) ledgersOf(ctx context.Context, g *group, partitions []int) ([]*row, error) {
	for round := 1; ; round++ {
		rows, err := b.findLedgers(ctx, g, partitions)
		if err != nil {
			return nil, err
		}
		var missing []int
		for i, r := range rows {
			if r == nil {
				missing = append(missing, partitions[i])
			}
		}
		if len(missing) == 0 {
			return rows, nil
		}
		if round > 2 {
			return nil, rheo.Errorf(rheo.ErrFailed, "the ledgers of group %q on stream %q are deleted as fast as they are made", g.document.Group, g.stream.name)
		}
		if err := b.sameGroup(ctx, g); err != nil {
			return nil, err
		}
		if err := b.makeLedgers(ctx, g, missing); err != nil {
			return nil, err
		}
	}
}

func (b *Backend) findLedgers(ctx context.Context, g *group, partitions []int) ([]*row, error) {
	ids, places := make([]string, len(partitions)), make(map[int]int, len(partitions))
	for i, p := range partitions {
		ids[i], places[p] = rowID(g, p), i
	}
	var found []*row
	cursor, err := b.collections.ledgers.Find(ctx, oneOf(ids),
		options.Find().SetBatchSize(int32(len(ids))+1))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, b.failure(err, reading)
	}
	rows := make([]*row, len(partitions))
	for _, r := range found {
		rows[places[r.Partition]] = r
	}
	return rows, nil
}

// oneOf selects by _id.
func oneOf(ids []string) bson.D {
	if len(ids) == 1 {
		return bson.D{{Key: "_id", Value: ids[0]}}
	}
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
}

// sameGroup makes sure that a group without ledgers is still there.
func (b *Backend) sameGroup(ctx context.Context, g *group) error {
	now, err := b.groupAnew(ctx, g.stream, g.document.Group)
	if err == nil && now.document.ID != g.document.ID {
		err = rheo.Errorf(rheo.ErrUnavailable, "group %q on stream %q was deleted and created again; repeat the call", g.document.Group, g.stream.name)
	}
	return err
}

// makeLedgers makes ledgers where there is none.
func (b *Backend) makeLedgers(ctx context.Context, g *group, partitions []int) error {
	rows := make([]*row, len(partitions))
	for i, p := range partitions {
		rows[i] = &row{
			ID: rowID(g, p), Stream: g.stream.name, Group: g.document.Group, Partition: p,
			Version: newToken(), Before: []int64{}, Dead: []burial{}, Pages: []page{},
		}
		rows[i].put(ledger.New(g.starts[p]))
	}
	_, err := b.collections.ledgers.InsertMany(withoutSession(ctx), rows, options.InsertMany().SetOrdered(false))
	if err == nil || onlyDuplicates(err) || b.unclear(err) {
		return nil // whoever reads them next sees
	}
	return b.failure(err, writing)
}

// swap is a ledger's document that takes the place of the version it was made from.
type swap struct {
	old, new *row
	spill    []*pageDocument // dead letters that go to pages of their own
	won      bool
}

// store replaces the rows that nobody has changed meanwhile, in one command, and
// tells which. It fails only if that cannot be told.
func (b *Backend) store(ctx context.Context, swaps []*swap) error {
	if len(swaps) == 0 {
		return nil
	}
	if err := b.storePages(ctx, swaps); err != nil {
		return err
	}
	models := make([]mongo.WriteModel, len(swaps))
	for i, w := range swaps {
		models[i] = mongo.NewReplaceOneModel().
			SetFilter(bson.D{{Key: "_id", Value: w.old.ID}, {Key: "version", Value: w.old.Version}}).SetReplacement(w.new)
	}
	for lost := 0; ; lost++ {
		result, err := b.collections.ledgers.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		switch {
		case err == nil && result.MatchedCount == int64(len(swaps)):
			for _, w := range swaps {
				w.won = true
			}
			return nil
		case err == nil:
			return b.whichWon(ctx, swaps, len(swaps) > 1 || lost > 0)
		case hostSession(ctx) != nil:
			return b.inSession(err)
		case !b.unclear(err):
			err = b.failure(err, writing)
			if lost > 0 || len(swaps) > 1 {
				return ambiguous(err)
			}
			return err
		case lost == mostLost || hasConcernError(err):
			return b.failure(err, writing)
		}
	}
}

// ambiguous is the error for a failure after something may have been written.
func ambiguous(err error) error {
	var own *rheo.Error
	if !errors.As(err, &own) || errors.Is(err, rheo.ErrAmbiguous) {
		return err
	}
	return rheo.WrapError(rheo.ErrAmbiguous, own.Cause, "some of it may have been done; repeat the call: %s", own.Detail)
}

// whichWon looks whose versions are there. Of one swap alone, which the server says
// found nothing to replace, nothing need be asked.
func (b *Backend) whichWon(ctx context.Context, swaps []*swap, ask bool) error {
	if !ask {
		return nil
	}
	ids, byID := make([]string, len(swaps)), make(map[string]*swap, len(swaps))
	for i, w := range swaps {
		ids[i], byID[w.old.ID] = w.old.ID, w
	}
	var found []row
	cursor, err := b.collections.ledgers.Find(ctx, oneOf(ids),
		options.Find().SetProjection(bson.D{{Key: "version", Value: 1}, {Key: "before", Value: 1}}).SetBatchSize(int32(len(ids))+1))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return ambiguous(b.failure(err, reading))
	}
	for i := range found {
		w := byID[found[i].ID]
		w.won = found[i].Version == w.new.Version || slices.Contains(found[i].Before, w.new.Version)
	}
	return nil
}
