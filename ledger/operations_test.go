package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rheo-go/rheo/ledger"
)

// TestOperationsAgainstModel runs random operations on a ledger and on a
// model, and compares what they return and what they have become.
func TestOperationsAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, func(low, high int) int { return rapid.IntRange(low, high).Draw(t, "") })
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			w.step()
		}
	})
}

// FuzzOperations is the same, driven by bytes.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("claim, settle, renew; claim, settle, renew"))
	f.Add(bytes.Repeat([]byte{0, 255, 3, 1, 250, 4, 2, 9}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 4000)]
		w := newWorld(t, func(low, high int) int {
			if len(data) == 0 {
				return low
			}
			n := int(data[0])
			data = data[1:]
			if high-low > 255 && len(data) > 0 {
				n = n<<8 | int(data[0])
				data = data[1:]
			}
			return low + n%(high-low+1)
		})
		for range 100 {
			if len(data) == 0 {
				return
			}
			w.step()
		}
	})
}

// A world holds a ledger and its model through the operations.
type world struct {
	t      tester
	pick   func(low, high int) int
	ledger *ledger.Ledger
	model  *model
	now    int64
	high   int64
	claims []uint64
	log    []string
}

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newWorld(t tester, pick func(low, high int) int) *world {
	cursor := int64(pick(0, 3))
	return &world{
		t: t, pick: pick, ledger: ledger.New(cursor), model: newModel(cursor),
		now: 100, high: cursor, claims: []uint64{0},
	}
}

func (w *world) step() {
	w.t.Helper()
	operations := []func(){
		w.claim, w.claim, w.claim, w.settle, w.settle, w.settle, w.renew, w.renew,
		w.passTime, w.reopen, w.reopenEach, w.expireAll, w.restore, w.recode, w.clone, w.reset,
	}
	n := w.pick(0, len(operations)*8-1) // reset is rare, or nothing would ever grow
	if n >= len(operations)-1 {
		n %= len(operations) - 1
	}
	operations[n]()
	w.compare()
}

func (w *world) did(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) same(what string, got, want any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("%s: model (-), ledger (+):\n%s\nafter %q", what, diff, w.log)
	}
}

func (w *world) compare() {
	w.t.Helper()
	w.same("runs", slices.Collect(w.ledger.All()), w.model.runs())
	w.same("len", w.ledger.Len(), len(w.model.runs()))
	w.same("cursor", w.ledger.Cursor(), w.model.cursor)
	w.same("frontier", w.ledger.Frontier(), w.model.frontier())
	w.same("counts", w.ledger.Count(w.now), w.model.count(w.now))
	if err := ledger.Check(w.ledger); err != nil {
		w.t.Fatalf("%v\nafter %q", err, w.log)
	}
}

func (w *world) claim() {
	w.t.Helper()
	if w.high < 600 {
		w.high += int64(w.pick(0, 200))
	}
	id := w.claims[len(w.claims)-1] + 1
	if w.pick(0, 15) == 0 { // a caller's mistake, but the ledger's state must stay sound
		id = w.anyClaim()
	}
	c := ledger.Claim{
		ID: id, Consumer: w.consumer(), Now: w.now, Expires: w.now + int64(w.pick(-1, 20)),
		Max: w.pick(-1, 300), High: w.high,
		MaxAttempts: w.pick(0, 4), MaxRuns: w.pick(0, 150), Ordered: w.pick(0, 3) == 0,
	}
	w.claims = append(w.claims, max(id, w.claims[len(w.claims)-1]))
	w.did("claim %+v", c)
	w.same("claimed", w.ledger.Claim(c), w.model.claim(c))
}

func (w *world) consumer() string { return []string{"", "a", "b"}[w.pick(0, 2)] }

func (w *world) reason() string { return []string{"", "boom", "bang"}[w.pick(0, 2)] }

func (w *world) anyClaim() uint64 {
	return w.claims[w.pick(max(0, len(w.claims)-5), len(w.claims)-1)]
}

// refs returns sequences of all kinds, most of them with the claim that holds
// them: a stretch with a stride, perhaps shuffled, perhaps with duplicates.
func (w *world) refs() []ledger.Ref {
	cursor := int(w.model.cursor)
	from, stride, n := w.pick(0, cursor+2), w.pick(1, 4), w.pick(0, 200)
	if w.pick(0, 3) == 0 {
		from, stride, n = 1, 1, cursor
	}
	var refs []ledger.Ref
	for s := from; s <= cursor+1 && len(refs) < n; s += stride {
		refs = append(refs, ledger.Ref{Sequence: int64(s), Claim: w.model.open[int64(s)].Claim})
	}
	for range w.pick(0, 6) {
		w.disturb(&refs)
	}
	return refs
}

// disturb makes one ref stale or foreign, moves it, or names it twice.
func (w *world) disturb(refs *[]ledger.Ref) {
	list := *refs
	if len(list) == 0 {
		return
	}
	i, j := w.pick(0, len(list)-1), w.pick(0, len(list)-1)
	switch w.pick(0, 3) {
	case 0:
		list[i].Claim = w.anyClaim()
	case 1:
		list[i].Sequence = int64(w.pick(0, int(w.model.cursor)+2) - 1)
	case 2:
		list[i], list[j] = list[j], list[i]
	case 3:
		*refs = slices.Insert(list, j, list[i])
	}
}

func (w *world) settle() {
	w.t.Helper()
	var batch []ledger.Settlement
	item := w.settlement()
	for _, ref := range w.refs() {
		if w.pick(0, 7) == 0 {
			item = w.settlement()
		}
		item.Ref = ref
		batch = append(batch, item)
	}
	maxAttempts := w.pick(0, 4)
	w.did("settle %v (%d)", batch, maxAttempts)
	w.same("settled", w.ledger.Settle(batch, maxAttempts), w.model.settle(batch, maxAttempts))
}

func (w *world) settlement() ledger.Settlement {
	return ledger.Settlement{
		Outcome: ledger.Outcome(w.pick(0, 5)), NotBefore: w.now + int64(w.pick(-1, 10)), Reason: w.reason(),
	}
}

func (w *world) renew() {
	w.t.Helper()
	refs, expires := w.refs(), w.now+int64(w.pick(-5, 30))
	w.did("renew %v until %d", refs, expires)
	w.same("renewed", w.ledger.Renew(refs, expires), w.model.renew(refs, expires))
}

func (w *world) passTime() { w.now += int64(w.pick(1, 15)) }

func (w *world) reopen() {
	from, to := int64(w.pick(-1, int(w.model.cursor)+1)), int64(w.pick(-1, int(w.model.cursor)+2))
	w.did("reopen %d..%d", from, to)
	w.ledger.Reopen(from, to)
	w.model.reopen(sequence(from, to, 1)...)
}

func (w *world) reopenEach() {
	w.t.Helper()
	var sequences []int64
	for _, ref := range w.refs() {
		sequences = append(sequences, ref.Sequence)
	}
	maxRuns := w.pick(-1, 100)
	w.did("reopen each of %v (%d)", sequences, maxRuns)
	before := slices.Clone(sequences)
	err := w.ledger.ReopenEach(sequences, maxRuns)
	w.same("reopened", err == nil, w.model.reopenEach(sequences, maxRuns))
	w.same("too many", err != nil, errors.Is(err, ledger.ErrTooManyRuns))
	w.same("argument", sequences, before)
}

func (w *world) expireAll() {
	now := w.now + int64(w.pick(-5, 5))
	w.did("expire all at %d", now)
	w.ledger.ExpireAll(now)
	w.model.expireAll(now)
}

func (w *world) restore() {
	w.t.Helper()
	var spans []ledger.Span
	from := int64(w.pick(1, int(w.model.cursor)+1))
	for range w.pick(0, 4) {
		to := from + int64(w.pick(0, 20))
		if from > w.model.cursor+1 && (len(spans) == 0 || from > spans[len(spans)-1].To+1) || to > 700 {
			break
		}
		spans = append(spans, ledger.Span{From: from, To: to, Attempt: w.pick(1, 4), Reason: w.reason()})
		from = to + 1 + int64(w.pick(0, 3))
	}
	claim, consumer, expires := w.anyClaim(), w.consumer(), w.now+int64(w.pick(0, 20))
	w.did("restore %d %+v", claim, spans)
	if err := w.ledger.Restore(claim, consumer, expires, spans); err != nil {
		w.t.Fatalf("restore %+v: %v", spans, err)
	}
	w.model.restore(claim, consumer, expires, spans)
}

// recode goes on with what the encoding brings back.
func (w *world) recode() {
	w.t.Helper()
	w.did("recode")
	data, _ := w.ledger.MarshalBinary()
	decoded := ledger.New(77)
	if err := decoded.UnmarshalBinary(data); err != nil {
		w.t.Fatalf("decode: %v\nafter %q", err, w.log)
	}
	again, _ := decoded.AppendBinary([]byte("prefix"))
	w.same("encoding", again, append([]byte("prefix"), data...))
	w.ledger = decoded
}

// clone goes on with a clone, while the original is changed.
func (w *world) clone() {
	w.did("clone")
	original := w.ledger
	w.ledger = original.Clone()
	original.Settle(ack(w.anyClaim(), sequence(1, original.Cursor(), 3)...), 1)
	original.Reopen(1, original.Cursor()/2)
}

func (w *world) reset() {
	cursor := int64(w.pick(0, 30))
	w.did("reset to %d", cursor)
	w.high = max(w.high, cursor)
	w.ledger.Reset(cursor)
	w.model = newModel(cursor)
}
