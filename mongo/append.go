package mongo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

// maxCommitBytes bounds a commit document: MongoDB's own bound is 16 MB.
const maxCommitBytes = 15 << 20

// Append implements [rheo.Backend]. Calls that come while one is under way form
// the next one together.
func (b *Backend) Append(ctx context.Context, r rheo.AppendRequest) ([]rheo.AppendResult, error) {
	ctx, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.stream(ctx, r.Stream)
	if err != nil {
		return nil, err
	}
	call := &appendCall{ctx: ctx, request: r, done: make(chan struct{})}
	if err := call.measure(); err != nil {
		return nil, err
	}
	if err := b.checkPlaceIndex(ctx); err != nil {
		return nil, err
	}
	if hostSession(ctx) != nil {
		return b.appendInSession(ctx, s, call)
	}
	var results []rheo.AppendResult
	if len(r.Expected) > 0 {
		b.appendAll(ctx, s, []*appendCall{call})
		results, err = call.results, call.err
	} else {
		results, err = b.combine(s, call)
	}
	if results != nil {
		b.hub(r.Stream).Wake()
	}
	return results, err
}

// measure refuses what would not fit in one document.
func (c *appendCall) measure() error {
	bytes := make(map[int]int)
	for i := range c.request.Events {
		e := &c.request.Events[i]
		n := size(e)
		c.bytes += n
		bytes[e.Partition] += n
		if bytes[e.Partition] > maxCommitBytes {
			return rheo.Errorf(rheo.ErrInvalid,
				"batch has more than %d bytes for partition %d, the limit of what MongoDB keeps as one document; append smaller batches", maxCommitBytes, e.Partition)
		}
	}
	return nil
}

// slot is an event of an append under way, and where it came to be.
type slot struct {
	event    *rheo.Event
	call     *appendCall
	sequence int64
	stored   *rheo.Event // what the log held under its ID before, if it did
}

// share is what an append brings for one partition.
type share struct {
	partition int
	slots     []*slot // each ID once
	byID      map[string]*slot
	token     int64
	tail      int64 // as known last
	seen      bool  // and found in the log
	done      bool
}

// appending is an append under way.
type appending struct {
	b        *Backend
	stream   *stream
	calls    []*appendCall
	shares   []*share // by partition, ascending
	expected rheo.ExpectedSequence
	sent     bool // something may be in the log
}

func (b *Backend) newAppending(s *stream, calls []*appendCall) *appending {
	a := &appending{b: b, stream: s, calls: calls, expected: calls[0].request.Expected}
	byPartition := make(map[int]*share)
	for _, c := range calls {
		for i := range c.request.Events {
			e := &c.request.Events[i]
			sh := byPartition[e.Partition]
			if sh == nil {
				sh = &share{partition: e.Partition, byID: make(map[string]*slot), token: newToken(), tail: s.tail(e.Partition)}
				byPartition[e.Partition] = sh
				a.shares = append(a.shares, sh)
			}
			if sh.byID[e.ID] == nil {
				sh.byID[e.ID] = &slot{event: e, call: c}
				sh.slots = append(sh.slots, sh.byID[e.ID])
			}
		}
	}
	slices.SortFunc(a.shares, func(x, y *share) int { return x.partition - y.partition })
	return a
}

// newToken never is one that was used before, by anybody.
func newToken() int64 {
	for {
		if t := rand.Int64(); t != 0 {
			return t
		}
	}
}

// appendAll appends what the calls bring and sets their results.
func (b *Backend) appendAll(ctx context.Context, s *stream, calls []*appendCall) {
	a := b.newAppending(s, calls)
	err := a.run(ctx)
	for _, c := range calls {
		a.finish(c, err)
	}
}

// run looks at the log's ends and the IDs, and inserts what is new behind; and
// again, as long as others come first.
func (a *appending) run(ctx context.Context) error {
	var p patience
	for lost := 0; ; {
		err := a.look(ctx)
		var left []*share
		if err == nil {
			left, err = a.left()
		}
		if err != nil {
			return a.inDoubt(err)
		}
		if len(left) == 0 {
			return a.fetchStored(ctx)
		}
		err = a.insert(ctx, left)
		switch {
		case err == nil:
			return a.fetchStored(ctx)
		case onlyDuplicates(err):
		case a.b.unclear(err):
			a.sent = true
			lost++
			if lost > mostLost || hasConcernError(err) {
				return a.b.failure(err, writing)
			}
		default:
			return a.inDoubt(a.b.failure(err, writing))
		}
		if err := p.wait(ctx); err != nil {
			return a.inDoubt(err)
		}
	}
}

// inDoubt is the error for a failure that comes after something may have been
// appended.
func (a *appending) inDoubt(err error) error {
	if a.sent && !errors.Is(err, rheo.ErrConflict) {
		return ambiguous(err)
	}
	return err
}

// found is what look reads of a commit document.
type found struct {
	Partition int      `bson:"partition"`
	First     int64    `bson:"first"`
	Last      int64    `bson:"last"`
	Token     int64    `bson:"token"`
	IDs       []string `bson:"ids"`
}

var foundFields = bson.D{
	{Key: "_id", Value: 0},
	{Key: "partition", Value: 1},
	{Key: "first", Value: 1},
	{Key: "last", Value: 1},
	{Key: "token", Value: 1},
	{Key: "ids", Value: 1},
}

// look reads, in one command, what came behind the tails that are known and
// whichever documents hold one of the IDs.
func (a *appending) look(ctx context.Context) error {
	var conditions bson.A
	for _, sh := range a.shares {
		if sh.done {
			continue
		}
		of := func(field string, value any) bson.D {
			return bson.D{{Key: "stream", Value: a.stream.name}, {Key: "partition", Value: sh.partition}, {Key: field, Value: value}}
		}
		ids := make([]string, len(sh.slots))
		for i, slot := range sh.slots {
			ids[i] = slot.event.ID
		}
		conditions = append(conditions, of("last", bson.D{{Key: "$gte", Value: sh.tail}}), of("ids", bson.D{{Key: "$in", Value: ids}}))
	}
	if len(conditions) == 0 {
		return nil
	}
	cursor, err := a.b.collections.log.Find(ctx, either(conditions), options.Find().SetProjection(foundFields))
	if err != nil {
		return a.b.failure(err, reading)
	}
	var all []found
	if err := cursor.All(ctx, &all); err != nil {
		return a.b.failure(err, reading)
	}
	for i := range all {
		a.take(&all[i])
	}
	return a.lookAgain(ctx)
}

// lookAgain is for when the end of a partition, as it was remembered, is no longer
// in the log, as after a restore from a backup: what is remembered then is wrong.
func (a *appending) lookAgain(ctx context.Context) error {
	lost := false
	for _, sh := range a.shares {
		lost = lost || !sh.done && sh.tail > 0 && !sh.seen
	}
	if !lost {
		return nil
	}
	a.b.forget(a.stream)
	for _, sh := range a.shares {
		if err := a.b.tailAnew(ctx, a.stream, sh.partition); err != nil {
			return err
		}
		sh.tail, sh.seen = a.stream.tail(sh.partition), true
	}
	return nil
}

// take takes notice of a document.
func (a *appending) take(d *found) {
	at, _ := slices.BinarySearchFunc(a.shares, d.Partition, func(sh *share, p int) int { return sh.partition - p })
	sh := a.shares[at]
	if d.Last >= sh.tail {
		sh.tail, sh.seen = d.Last, true
	}
	mine := d.Token == sh.token
	sh.done = sh.done || mine
	for i, id := range d.IDs {
		slot := sh.byID[id]
		if slot == nil || slot.sequence != 0 {
			continue
		}
		slot.sequence = d.First + int64(i)
		if !mine {
			slot.stored = new(rheo.Event)
		}
	}
}

// left returns the shares of which something is not in the log yet.
func (a *appending) left() (left []*share, err error) {
	for _, sh := range a.shares {
		if !slices.ContainsFunc(sh.slots, func(s *slot) bool { return s.sequence == 0 }) {
			sh.done = true
		}
		if sh.done {
			continue
		}
		if want, ok := a.expected[sh.partition]; ok && want != sh.tail {
			return nil, rheo.Errorf(rheo.ErrConflict, "partition %d of stream %q is at sequence %d, not %d",
				sh.partition, a.stream.name, sh.tail, want)
		}
		left = append(left, sh)
	}
	return left, nil
}

// insert adds a commit document for each share. What of it went through is known
// without looking again only if all did.
func (a *appending) insert(ctx context.Context, shares []*share) error {
	documents := make([]*commit, len(shares))
	for i, sh := range shares {
		documents[i] = a.document(sh)
	}
	_, err := a.b.collections.log.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	a.sent = a.sent || len(shares) > 1
	if err != nil {
		return err
	}
	a.sent = true
	for i, sh := range shares {
		sh.done = true
		sequence := documents[i].First
		for _, slot := range sh.slots {
			if slot.sequence == 0 {
				slot.sequence = sequence
				sequence++
			}
		}
		if hostSession(ctx) == nil {
			a.stream.raise(sh.partition, documents[i].Last)
			documents[i].Terms = nil
			a.b.commits.put(documents[i])
		}
	}
	return nil
}

func (a *appending) document(sh *share) *commit {
	var fresh []*rheo.Event
	for _, slot := range sh.slots {
		if slot.sequence == 0 {
			fresh = append(fresh, slot.event)
		}
	}
	c := newCommit(a.stream.name, sh.partition, sh.tail+1, fresh)
	c.Token = sh.token
	if a.b.schema.terms.Load() {
		c.Terms = termsOf(fresh)
	}
	return c
}
