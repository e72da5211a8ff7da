package backendtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
)

func sharingCases() []testCase {
	cases := []testCase{
		{name: "what one process writes the other reads", run: oneWritesTheOtherReads},
		{name: "two processes append without gaps", run: twoProcessesAppend},
		{name: "two processes share the events of a group", run: twoProcessesShareAGroup},
		{name: "a lease is fenced across processes", run: fencedAcrossProcesses},
		{name: "many processes start at once", run: manyStartAtOnce},
	}
	for i := range cases {
		cases[i].needs = append(cases[i].needs, needsSharing)
	}
	return cases
}

// join opens the store once more, beside s, as another process would.
func (s *subject) join() *rheo.Instance {
	s.Helper()
	b := s.config.Join(s.T, s.backend, s.clock)
	in := s.instance(b, rheo.Options{Name: "beside"})
	s.Cleanup(func() {
		if err := in.Close(); err != nil {
			s.Errorf("closing the backend that joined: %v", err)
		}
	})
	return in
}

func oneWritesTheOtherReads(s *subject) {
	other := s.join()
	s.create(1, "g")
	s.fill(0, 3)
	events, err := other.Read(s.Context(), s.stream, 0, 0, 10)
	s.noError(err)
	equalList(s, "events", eventIDs(events), []string{"0-1", "0-2", "0-3"})
	s.fails("creating the stream again", other.CreateStream(s.Context(), s.stream, rheo.StreamConfig{}), rheo.ErrAlreadyExists)
	s.fails("creating the group again", other.CreateGroup(s.Context(), s.stream, "g", rheo.GroupConfig{}), rheo.ErrAlreadyExists)
	results, err := other.Append(s.Context(), s.stream, on(0, "0-2", "new")...)
	s.noError(err)
	equal(s, "duplicate", results[0].Duplicate, true)
	equal(s, "sequence", results[1].Sequence, 4)
	s.ack(s.take("g", 1, 2)...)
	info, err := other.GroupInfo(s.Context(), s.stream, "g")
	s.noError(err)
	equal(s, "lag", info.Lag(), 2)
}

func twoProcessesAppend(s *subject) {
	s.create(1)
	instances := []*rheo.Instance{s.in, s.join()}
	each := s.scaled(50)
	var writing atomic.Int32
	writing.Store(4)
	s.together(5, func(who int) error {
		if who == 4 {
			return s.follow(func() bool { return writing.Load() > 0 })
		}
		defer writing.Add(-1)
		for i := range each {
			batch := on(0, fmt.Sprintf("%d-%d", who, i), fmt.Sprint("shared-", i))
			if _, err := instances[who%2].Append(s.Context(), s.stream, batch...); err != nil {
				return err
			}
		}
		return nil
	})
	equal(s, "events", len(s.read(0)), 5*each)
}

func twoProcessesShareAGroup(s *subject) {
	s.create(2, "g")
	instances := []*rheo.Instance{s.in, s.join()}
	n := s.scaled(400)
	s.fill(0, n)
	s.fill(1, n)
	var mu sync.Mutex
	var got []string
	var left atomic.Int64
	left.Store(int64(2 * n))
	s.together(4, func(who int) error {
		for left.Load() > 0 {
			in := instances[who%2]
			leases, err := in.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 20})
			if err != nil {
				return err
			}
			if err := in.Ack(s.Context(), leases...); err != nil {
				return err
			}
			mu.Lock()
			got = append(got, idsOf(leases)...)
			mu.Unlock()
			left.Add(-int64(len(leases)))
		}
		return nil
	})
	s.eachOnce("two processes", got, s.query(rheo.Query{}))
	equal(s, "lag", s.lag("g"), 0)
}

func fencedAcrossProcesses(s *subject) {
	s.create(1, "g")
	s.fill(0, 2)
	other := s.join()
	old := s.take("g", 1, 2)
	theirs, err := other.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 2})
	s.noError(err)
	equal(s, "leases of the other", len(theirs), 0)
	s.noError(other.Ack(s.Context(), old[1])) // a lease may be handed on
	s.expire()
	theirs, err = other.Fetch(s.Context(), s.stream, "g", rheo.FetchOptions{Max: 2})
	s.noError(err)
	equalList(s, "leases of the other", sequencesOf(theirs), []int64{1})
	s.refused("a lease that another process has taken", old[0], rheo.ErrStaleLease)
	s.noError(other.Nack(s.Context(), "again", time.Minute, theirs...))
	s.due("g")
	s.clock.Advance(2 * time.Minute)
	equal(s, "attempt", s.due("g", 1)[0].Attempt, 3)
}

func manyStartAtOnce(s *subject) {
	instances := make([]*rheo.Instance, 10)
	for i := range instances {
		instances[i] = s.join()
	}
	var made atomic.Int32
	s.together(len(instances), func(who int) error {
		in := instances[who]
		if err := in.EnsureSchema(s.Context()); err != nil {
			return err
		}
		err := in.CreateStream(s.Context(), s.stream, rheo.StreamConfig{})
		if err == nil {
			made.Add(1)
		} else if rheo.Classify(err) != rheo.ReasonAlreadyExists {
			return err
		}
		_, err = in.Append(s.Context(), s.stream, event("the same"), event(fmt.Sprint("from ", who)))
		return err
	})
	equal(s, "processes that created the stream", made.Load(), 1)
	equal(s, "events", len(s.read(0)), 1+len(instances))
}
