package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	rheoredis "github.com/rheo-go/rheo/redis"
)

// ids makes IDs of every kind that appends tell apart, and repeats some.
type ids struct {
	*rand.Rand
	clock *steppedClock
	past  []string
	wild  int // in 100 batches, how many are of all kinds
}

func (s *ids) uuid(at time.Time) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, s.IntN(1<<12), 0x8000|s.IntN(1<<14), s.Uint64()>>16)
}

func (s *ids) next() string {
	s.clock.now = s.clock.now.Add(time.Duration(s.IntN(3)) * time.Millisecond)
	now := s.clock.now
	var id string
	switch k := s.IntN(40); {
	case k < 20:
		id = s.uuid(now)
	case k < 24: // late
		id = s.uuid(now.Add(-time.Duration(s.IntN(1000)) * time.Millisecond))
	case k < 26: // by a clock that is a bit ahead
		id = s.uuid(now.Add(time.Duration(s.IntN(1000)) * time.Millisecond))
	case k < 28: // or far
		id = s.uuid(now.Add(time.Duration(s.IntN(100000)) * time.Millisecond))
	case k < 30: // what only looks like one
		id = []string{"ffffffff-ffff-7fff-bfff-fffffffffffg", "FFFFFFFF-FFFF-7FFF-BFFF-FFFFFFFFFFFF", "00000000-0000-7000-800000000000000-0"}[s.IntN(3)]
	case k < 33:
		id = fmt.Sprintf("%016x", s.Uint64())
	case len(s.past) > 0 && k < 36:
		id = s.past[max(0, len(s.past)-1-s.IntN(30))]
	case len(s.past) > 0:
		id = s.past[s.IntN(len(s.past))]
	default:
		id = s.uuid(now)
	}
	return id
}

// batch returns events with IDs of all kinds, or with such as rise, or with some that were
// there in a row.
func (s *ids) batch() []rheo.Event {
	given := make([]string, 1+s.IntN(12))
	switch k := s.IntN(10); {
	case k < 2 && len(s.past) > len(given):
		copy(given, s.past[s.IntN(len(s.past)-len(given)):])
	case s.IntN(100) < s.wild:
		for i := range given {
			given[i] = s.next()
		}
	default:
		s.clock.now = s.clock.now.Add(15 * time.Millisecond)
		from := s.clock.now
		if k < 5 { // late, as a whole or in part
			from = from.Add(-time.Duration(s.IntN(60)) * time.Millisecond)
		}
		for i := range given {
			given[i] = s.uuid(from.Add(time.Duration(s.IntN(10)) * time.Millisecond))
		}
		slices.Sort(given)
		if k == 2 && len(s.past) > 0 {
			given[s.IntN(len(given))] = s.past[max(0, len(s.past)-1-s.IntN(30))]
			slices.Sort(given)
		}
	}
	s.past = append(s.past, given...)
	events := make([]rheo.Event, len(given))
	for i, id := range given {
		events[i] = rheo.Event{ID: id, Timestamp: s.clock.now.Add(time.Duration(s.IntN(4)/3) * -time.Second)}
	}
	return events
}

// Whatever the IDs look like, and in whatever order they come, each is appended once, and
// then found where it is.
func TestEveryIDIsKnownAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			clock := &steppedClock{now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
			s := newStore(t, rheoredis.Options{Clock: clock})
			s.create(t, "orders", 1)
			source := &ids{Rand: rand.New(rand.NewPCG(seed, 1)), clock: clock, wild: []int{0, 1, 50}[seed%3]} //nolint:gosec // it is to be repeated
			known := make(map[string]int64)
			high := int64(0)
			for range 300 {
				batch := source.batch()
				results, err := s.Append(t.Context(), "orders", batch...)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range results {
					sequence, there := known[batch[i].ID]
					if !there {
						high++
						sequence = high
						known[batch[i].ID] = high
					}
					if r.Duplicate != there || r.Sequence != sequence || r.ID != batch[i].ID {
						t.Fatalf("%s: sequence %d of %q, duplicate %t; want sequence %d, duplicate %t",
							batch[i].ID, r.Sequence, r.ID, r.Duplicate, sequence, there)
					}
				}
			}
			if n := s.do(t, "zcard", s.key("late")); source.wild == 0 && n == int64(0) {
				t.Error("no batch was late as a whole: that is not tested")
			}
			stored, err := s.Read(t.Context(), "orders", 0, 0, 10000)
			if err != nil || len(stored) != len(known) {
				t.Fatalf("%d events, want %d; %v", len(stored), len(known), err)
			}
		})
	}
}

// UUIDv7s that rise cost nothing beside the log, even if one came from a clock that is far
// ahead; and that one is known again, also when its time has come.
func TestRisingIDsAreKeptInTheLogAlone(t *testing.T) {
	t.Parallel()
	clock := &steppedClock{now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	s := newStore(t, rheoredis.Options{Clock: clock})
	s.create(t, "orders", 1)
	source := &ids{Rand: rand.New(rand.NewPCG(1, 1)), clock: clock} //nolint:gosec // it is to be repeated
	appends := func(id string) (duplicate bool) {
		t.Helper()
		results, err := s.Append(t.Context(), "orders", rheo.Event{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Duplicate
	}
	hashed := func(want int64) {
		t.Helper()
		if n := s.do(t, "hlen", s.key("ids:0")); n != want {
			t.Errorf("%v IDs are kept in a hash, want %d", n, want)
		}
	}
	far := source.uuid(clock.now.Add(time.Minute))
	appends(far)
	hashed(1)
	var rising []string
	for range 40 {
		clock.now = clock.now.Add(time.Millisecond)
		rising = append(rising, source.uuid(clock.now))
		appends(rising[len(rising)-1])
	}
	hashed(1)
	late := source.uuid(clock.now.Add(-20*time.Millisecond + time.Microsecond))
	if appends(late) {
		t.Error("a late ID is taken for another")
	}
	hashed(2)
	clock.now = clock.now.Add(time.Minute)
	for _, id := range append(rising, far, late) {
		if !appends(id) {
			t.Errorf("%s is not known again", id)
		}
	}
	hashed(2)
}

// The last event of a batch may be known, with a timestamp that no event of the log has.
func TestDuplicateAtTheEndOfABatch(t *testing.T) {
	t.Parallel()
	s := newStore(t, rheoredis.Options{})
	s.create(t, "orders", 1)
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, batch := range [][]rheo.Event{
		{{ID: "b", Timestamp: at}},
		{{ID: "a", Timestamp: at.Add(time.Second)}, {ID: "b", Timestamp: at.Add(time.Hour)}},
		{{ID: "c", Timestamp: at.Add(2 * time.Second)}},
	} {
		if _, err := s.Append(t.Context(), "orders", batch...); err != nil {
			t.Fatal(err)
		}
	}
	if latest := s.do(t, "hget", s.key("meta"), "latest"); latest != fmt.Sprint(at.Add(2*time.Second).UnixMicro()) {
		t.Errorf("the latest timestamp is %v", latest)
	}
}

// A batch that is late as a whole is kept as one, if nothing else lies within.
func TestLateBatches(t *testing.T) {
	t.Parallel()
	clock := &steppedClock{now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	s := newStore(t, rheoredis.Options{Clock: clock, IdempotencyWindow: time.Hour})
	s.create(t, "orders", 1)
	source := &ids{Rand: rand.New(rand.NewPCG(1, 1)), clock: clock} //nolint:gosec // it is to be repeated
	start := clock.now
	var all [][]rheo.Event
	// appends appends a batch of IDs of these ms, and says how many late batches and
	// how many IDs in hashes there are then.
	appends := func(lates, hashed int64, ms ...int) {
		t.Helper()
		batch := make([]rheo.Event, len(ms))
		for i := range ms {
			batch[i].ID = source.uuid(start.Add(time.Duration(ms[i]) * time.Millisecond))
		}
		results, err := s.Append(t.Context(), "orders", batch...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Duplicate {
				t.Errorf("%v: %s is taken for another", ms, r.ID)
			}
		}
		all = append(all, batch)
		if n := s.do(t, "zcard", s.key("late")); n != lates {
			t.Errorf("%v: %v late batches, want %d", ms, n, lates)
		}
		if n := s.do(t, "hlen", s.key("ids:0")); n != hashed {
			t.Errorf("%v: %v IDs in hashes, want %d", ms, n, hashed)
		}
	}
	clock.now = start.Add(time.Second)
	appends(0, 0, 100, 200, 300, 400, 500, 600, 700, 800, 900)
	appends(0, 2, -7300e3, -7299e3) // older than the window
	appends(1, 2, 840, 860)
	appends(2, 2, 820, 830)
	appends(2, 4, 810, 825) // among others from below
	appends(2, 6, 855, 870) // and from above
	appends(2, 8, 805, 895) // around others
	appends(2, 9, 890, 910) // one of them is above all
	appends(2, 9, 1000)
	appends(3, 9, 950, 960)  // above all that are in hashes, and late once more
	appends(3, 10, 980)      // a single one costs less in a hash
	appends(3, 12, 970, 975) // below that
	for _, batch := range all {
		results, err := s.Append(t.Context(), "orders", batch...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if !r.Duplicate {
				t.Errorf("%s is not known again", r.ID)
			}
		}
	}
	clock.now = start.Add(3 * time.Hour)
	appends(3, 12, 3*3600e3-500)
	appends(1, 12, 3*3600e3-800, 3*3600e3-700)
}
