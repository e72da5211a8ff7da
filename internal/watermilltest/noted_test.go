//go:build !race

package watermilltest_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo/rheowatermill"
)

// reconnectMessages is how many Watermill's reconnect case publishes.
const reconnectMessages = 10000

// untilNoted is a subscriber for Watermill's reconnect case. The case compares what
// it has received with what it has noted as published, as soon as it has received all; and notes
// a message a while after Publish has returned, on another goroutine. So the last message is
// held back here until all are noted.
type untilNoted struct {
	*rheowatermill.Subscriber
	published  atomic.Int64
	t          *testing.T
	forwarding sync.WaitGroup
}

// counting is the publisher of an untilNoted.
type counting struct {
	message.Publisher
	published *atomic.Int64
}

// Publish implements [message.Publisher].
func (c counting) Publish(topic string, messages ...*message.Message) error {
	err := c.Publisher.Publish(topic, messages...)
	if err == nil {
		c.published.Add(int64(len(messages)))
	}
	return err
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
	for patience := time.After(time.Minute); ; {
		if s.published.Load() == reconnectMessages && s.noted() {
			return
		}
		select {
		case <-poll.C:
		case <-patience:
			s.t.Errorf("waited a minute for all to be noted; %d are published", s.published.Load())
			return
		}
	}
}

// noted reports whether, at one moment, nobody was about to note a message: the case tells by
// its goroutines alone, and others of its kind may be under way.
func (s *untilNoted) noted() bool {
	const (
		noting     = "tests.TestReconnect.func2("
		publishing = "tests.TestReconnect.func3("
	)
	stacks := make([]byte, 4<<20)
	found := 0
	for goroutine := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		state, _, _ := strings.Cut(goroutine, "\n")
		idle := strings.Contains(state, "[chan receive")
		switch {
		case strings.Contains(goroutine, noting):
			found++
			if !idle {
				return false
			}
		case strings.Contains(goroutine, publishing):
			if !idle && !strings.Contains(goroutine, "tests.publishWithRetry(") && !strings.Contains(goroutine, "time.Sleep(") {
				return false
			}
		}
	}
	if found == 0 {
		s.t.Error("no goroutine of the case notes what is published: has Watermill changed it?")
	}
	return true
}

// Close implements [message.Subscriber].
func (s *untilNoted) Close() error {
	err := s.Subscriber.Close()
	s.forwarding.Wait()
	return err
}
