//go:build !race

package watermilltest_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo/rheowatermill"
)

// reconnectMessages is how many Watermill's reconnect case publishes.
const reconnectMessages = 10000

// untilNoted is a subscriber for Watermill's reconnect case. The case compares what it has
// received with what it has noted as published, as soon as it has received all; and notes a
// message a while after Publish has returned, on another goroutine. So the last message is held
// back here until its publishers have ended and all is noted.
type untilNoted struct {
	*rheowatermill.Subscriber
	t          *testing.T
	forwarding sync.WaitGroup
}

// Subscribe implements [message.Subscriber].
func (s *untilNoted) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := s.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	s.forwarding.Go(func() {
		defer close(out)
		s.forward(in, out)
	})
	return out, nil
}

func (s *untilNoted) forward(in <-chan *message.Message, out chan<- *message.Message) {
	seen := make(map[string]bool)
	for m := range in {
		if seen[m.UUID] = true; len(seen) == reconnectMessages {
			s.waitUntilNoted()
		}
		select {
		case out <- m:
		case <-m.Context().Done():
		}
	}
}

func (s *untilNoted) waitUntilNoted() {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for patience := time.After(20 * time.Second); ; {
		if s.noted() {
			return
		}
		select {
		case <-poll.C:
		case <-patience:
			s.t.Error("waited 20 s for the case's publishers to end and for all they published to be noted")
			return
		}
	}
}

// noted looks at the goroutines of the case, which tells by nothing else.
func (s *untilNoted) noted() bool {
	const (
		noting     = "tests.TestReconnect.func2("
		publishing = "tests.TestReconnect.func3("
	)
	stacks := make([]byte, 4<<20)
	found, waiting := 0, 0
	for goroutine := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		state, _, _ := strings.Cut(goroutine, "\n")
		switch {
		case strings.Contains(goroutine, publishing):
			return false
		case strings.Contains(goroutine, noting):
			found++
			if strings.Contains(state, "[chan receive") {
				waiting++
			}
		}
	}
	if found == 0 {
		s.t.Error("no goroutine of the case notes what is published: has Watermill changed it?")
	}
	return waiting == found
}

// Close implements [message.Subscriber].
func (s *untilNoted) Close() error {
	err := s.Subscriber.Close()
	s.forwarding.Wait()
	return err
}
