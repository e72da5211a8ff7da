package inflight

import (
	"slices"
	"sync"
	"testing"
)

type entry struct{ at Place }

func newSet(limit int) *Set[*entry] {
	return New(limit, func(e *entry) Place { return e.at })
}

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s := newSet(5)
	a, b := &entry{Place{0, 1}}, &entry{Place{1, 1}}
	if displaced := s.Add([]*entry{a, b}); displaced != nil {
		t.Errorf("displaced %v", displaced)
	}
	if s.Len() != 2 || s.Free() != 3 || received(s.Freed()) {
		t.Errorf("%d entries, %d free", s.Len(), s.Free())
	}
	if got, ok := s.Get(Place{1, 1}); !ok || got != b {
		t.Errorf("Get: %v, %v", got, ok)
	}
	if _, ok := s.Get(Place{1, 2}); ok {
		t.Error("Get found what is not there")
	}
	all := s.All()
	if len(all) != 2 || !slices.Contains(all, a) || !slices.Contains(all, b) {
		t.Errorf("All: %v", all)
	}
	s.Remove([]*entry{a})
	s.Remove([]*entry{b, {Place{7, 7}}})
	if s.Len() != 0 || !received(s.Freed()) || received(s.Freed()) {
		t.Error("Freed must receive once")
	}
	s.Nudge()
	if !received(s.Freed()) {
		t.Error("Nudge does not make Freed receive")
	}
}

// Who is handed a place anew has lost what it held there; and taking the lost one
// out leaves the new one in.
func TestSetDisplaces(t *testing.T) {
	t.Parallel()
	s := newSet(5)
	older, newer := &entry{Place{0, 1}}, &entry{Place{0, 1}}
	s.Add([]*entry{older})
	if displaced := s.Add([]*entry{older}); displaced != nil {
		t.Errorf("an entry displaced itself: %v", displaced)
	}
	if displaced := s.Add([]*entry{newer, {Place{0, 2}}}); !slices.Equal(displaced, []*entry{older}) {
		t.Errorf("displaced %v", displaced)
	}
	s.Remove([]*entry{older})
	if got, _ := s.Get(Place{0, 1}); got != newer || s.Len() != 2 {
		t.Errorf("%d entries, %v at the place", s.Len(), got)
	}
}

// No removal goes unnoticed by one who looks at Free before each wait.
func TestSetWakes(t *testing.T) {
	t.Parallel()
	const entries = 2000
	s := newSet(1)
	var others sync.WaitGroup
	for n := range int64(entries) {
		for s.Free() == 0 {
			<-s.Freed()
		}
		e := []*entry{{Place{0, n}}}
		s.Add(e)
		others.Go(func() { s.Remove(e) })
	}
	others.Wait()
	if s.Len() != 0 {
		t.Errorf("%d entries left", s.Len())
	}
}
