package mongotest_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// TestPagesOfDeadLetters: dead letters that have been moved out of the ledger are
// listed, counted, opened again one by one, and gone after a reset, as others are.
func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	s := newStore(t, mongo.Options{})
	const n = 1300
	s.create(t, "s", 1, "g")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("e%04d", i)
	}
	s.append(t, "s", on(0, ids...)...)
	leases, err := s.Fetch(t.Context(), "s", "g", rheo.FetchOptions{Max: n})
	if err != nil {
		t.Fatal(err)
	}
	for parity := range 2 { // so that pages overlap
		var settlements []rheo.Settlement
		for i := parity; i < n; i += 2 {
			settlements = append(settlements, rheo.Settlement{Lease: leases[i], Outcome: rheo.OutcomeReject, Reason: fmt.Sprint("reason ", i)})
		}
		if err := s.settle(settlements)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	letters := s.database.Collection(s.options.Prefix + "dead_letters")
	pages := func() int64 {
		count, err := letters.CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	if pages() < 2 {
		t.Errorf("there are %d pages", pages())
	}
	expectDead(t, s, "s", ids...)
	page, err := s.DeadLettersPage(t.Context(), "s", "g", rheo.Cursor{After: map[int]int64{0: 700}}, 3)
	if err != nil || len(page.DeadLetters) != 3 || page.DeadLetters[0].Reason != "reason 700" || !page.More {
		t.Errorf("the page is %v, %v", page, err)
	}
	again := []string{ids[0], ids[501], ids[900], ids[n-1]}
	if opened, err := s.Replay(t.Context(), "s", "g", rheo.ReplaySelection{IDs: again}); err != nil || opened != 4 {
		t.Errorf("%d were opened, %v", opened, err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(again, id) })
	expectDead(t, s, "s", ids...)
	reopens(t, s, "s", again...)
	if _, err := s.Replay(t.Context(), "s", "g", rheo.ReplaySelection{FromSequence: 101}); err != nil {
		t.Fatal(err)
	}
	expectDead(t, s, "s", ids[:99]...)
	if err := s.ResetGroup(t.Context(), "s", "g", rheo.ResetOptions{Confirm: true}); err != nil {
		t.Fatal(err)
	}
	expectDead(t, s, "s")
	if pages() != 0 {
		t.Errorf("%d pages are left", pages())
	}
}
