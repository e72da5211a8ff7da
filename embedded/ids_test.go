package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
)

// TestIDs appends IDs, new ones and others, while they move to the index, and
// expects each to be found under its sequence, before and after a crash.
func TestIDs(t *testing.T) {
	t.Parallel()
	orders := map[string]func(n int, r *rand.Rand) string{
		"ascending":  func(n int, _ *rand.Rand) string { return fmt.Sprintf("%08d", n) },
		"random":     func(n int, r *rand.Rand) string { return fmt.Sprintf("%x-%d", r.Uint64(), n) },
		"descending": func(n int, _ *rand.Rand) string { return fmt.Sprintf("%08d", 99_999_999-n) },
		"mostly ascending": func(n int, r *rand.Rand) string {
			return fmt.Sprintf("%08d-%d", n+r.IntN(50), n)
		},
		"of all lengths": func(n int, r *rand.Rand) string {
			return fmt.Sprintf("%d%s", n, strings.Repeat("x", r.IntN(248)))
		},
	}
	for name, idOf := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testIDs(t, rand.New(rand.NewPCG(1, 2)), idOf)
		})
	}
}

func testIDs(t *testing.T, r *rand.Rand, idOf func(int, *rand.Rand) string) {
	t.Helper()
	const rounds, batch, partitions = 60, 40, 512 // so many that IDs enter the index early
	s := newStore(t, partitions, rheo.GroupConfig{})
	var ids []string
	for round := range rounds {
		events := make([]rheo.Event, batch)
		first := len(ids)
		for i := range events {
			id := ""
			if len(ids) > 0 && r.IntN(4) == 0 {
				id = ids[r.IntN(len(ids))]
			} else {
				id = idOf(len(ids), r)
				ids = append(ids, id)
			}
			events[i] = rheo.Event{ID: id, Pinned: true}
		}
		results, err := s.in.Append(t.Context(), "s", events...)
		s.must(err)
		appended := 0
		for i, result := range results {
			want := int64(slices.Index(ids, events[i].ID) + 1)
			fresh := want == int64(first+appended+1)
			if fresh {
				appended++
			}
			if result.ID != events[i].ID || result.Sequence != want || result.Duplicate == fresh {
				t.Fatalf("round %d, %q: got %+v, want sequence %d, fresh %t", round, events[i].ID, result, want, fresh)
			}
		}
		if round%20 == 19 {
			s = s.crash()
		}
	}
	if indexed := s.store.Indexed("s", 0); indexed < int64(len(ids))-300 {
		t.Fatalf("only %d of %d IDs are in the index", indexed, len(ids))
	}
	for i, id := range ids {
		found, err := s.in.Query(t.Context(), "s", rheo.Query{Where: []rheo.Condition{rheo.Where("id", rheo.OpIn, []string{id, id + "?"})}})
		s.must(err)
		if len(found) != 1 || found[0].Sequence != int64(i+1) {
			t.Fatalf("%q was found as %+v, want sequence %d", id, found, i+1)
		}
	}
}

// Appends of the same IDs at the same time append each once.
func TestSameIDsAtOnce(t *testing.T) {
	t.Parallel()
	const callers, events = 8, 300
	s := newStore(t, 1, rheo.GroupConfig{})
	errs := make(chan error)
	for range callers {
		go func() {
			for n := 0; n < events; n += 10 {
				batch := make([]rheo.Event, 10)
				for i := range batch {
					batch[i] = rheo.Event{ID: fmt.Sprintf("0-%d", n+i+1)}
				}
				if _, err := s.in.Append(s.Context(), "s", batch...); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range callers {
		s.must(<-errs)
	}
	s.high(0, events)
}
