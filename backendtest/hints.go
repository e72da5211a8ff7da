package backendtest

import (
	"fmt"
	"time"

	"github.com/rheo-go/rheo"
)

func hintCases() []testCase {
	cases := []testCase{
		{name: "the backend is a waiter if it says so", run: backendIsAWaiter},
		{name: "an append is hinted at", run: appendIsHinted},
		{name: "what becomes available again is hinted at", run: availableAgainIsHinted},
		{name: "a replay and a reset are hinted at", needs: []need{needsReplay}, run: replayIsHinted},
		{name: "every watcher gets its hint", run: everyWatcherIsHinted},
		{name: "a watcher that does not listen holds up nobody", run: deafWatcher},
		{name: "a stopped watch gets no more", run: stoppedWatch},
	}
	for i := range cases {
		cases[i].needs = append([]need{needsHints}, cases[i].needs...)
	}
	return cases
}

func backendIsAWaiter(s *subject) { s.watch() }

// watch returns the hints of the case's stream. The watch ends with the case.
func (s *subject) watch() <-chan struct{} {
	s.Helper()
	waiter, ok := s.backend.(rheo.Waiter)
	if !ok {
		s.Fatal("the backend declares notifications, but does not implement rheo.Waiter")
	}
	hints, stop := waiter.Watch(s.stream)
	s.Cleanup(stop)
	return hints
}

// hinted does something until a hint comes of it: one may be lost, but not one
// after another.
func (s *subject) hinted(what string, hints <-chan struct{}, do func(round int)) {
	s.Helper()
	const rounds, wait = 5, time.Second
	for round := range rounds {
		select { // one that is left over from before
		case <-hints:
		default:
		}
		do(round)
		select {
		case <-hints:
			return
		case <-time.After(wait):
		}
	}
	s.Fatalf("%s: no hint came within %v, %d times", what, wait, rounds)
}

func (s *subject) appendOne(prefix string) func(int) {
	return func(round int) { s.append(event(fmt.Sprint(prefix, round))) }
}

func appendIsHinted(s *subject) {
	s.create(1)
	hints := s.watch()
	for i := range 3 {
		s.hinted("an append", hints, s.appendOne(fmt.Sprint("e", i, "-")))
	}
}

func availableAgainIsHinted(s *subject) {
	s.create(1)
	s.group("g", rheo.GroupConfig{MaxAttempts: 100})
	s.fill(0, 1)
	hints := s.watch()
	s.hinted("a nack", hints, func(int) { s.nack("again", 0, s.take("g", 1)...) })
	s.hinted("a release", hints, func(int) { s.release(s.take("g", 1)...) })
}

func replayIsHinted(s *subject) {
	s.finished(2)
	hints := s.watch()
	s.hinted("a replay", hints, func(int) { s.replay("g", rheo.ReplaySelection{FromSequence: 1}) })
	s.hinted("a reset", hints, func(int) { s.reset("g", rheo.ResetOptions{}) })
}

func everyWatcherIsHinted(s *subject) {
	s.create(1)
	watchers := []<-chan struct{}{s.watch(), s.watch(), s.watch()}
	for i, hints := range watchers {
		s.hinted(fmt.Sprint("watcher ", i), hints, s.appendOne(fmt.Sprint("e", i, "-")))
	}
}

// Hints coalesce: nobody reads them here, and all goes on.
func deafWatcher(s *subject) {
	s.create(1, "g")
	hints := s.watch()
	s.fill(0, 50)
	for range 50 {
		s.append(event(""))
	}
	for range 5 {
		s.nack("again", 0, s.fetch("g", 10)...)
		s.clock.Advance(time.Second)
	}
	s.drain("g")
	s.hinted("a watcher that listens again", hints, s.appendOne("late"))
}

func stoppedWatch(s *subject) {
	s.create(1)
	waiter := s.backend.(rheo.Waiter)
	hints, stop := waiter.Watch(s.stream)
	others := s.watch()
	s.hinted("before it is stopped", hints, s.appendOne("before"))
	stop()
	for len(hints) > 0 {
		<-hints
	}
	s.hinted("another watch", others, s.appendOne("after"))
	select {
	case _, open := <-hints:
		s.Fatalf("a hint came after the watch was stopped; the channel is open: %v", open)
	default:
	}
}
