package rheo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/faultbackend"
	"github.com/rheo-go/rheo/memory"
)

// operationsOnly notes the operations that it is told of.
type operationsOnly struct {
	mu     sync.Mutex
	starts []rheo.OperationStart
	ends   []rheo.OperationEnd
}

type operationKey struct{}

func (o *operationsOnly) StartOperation(ctx context.Context, start rheo.OperationStart) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts = append(o.starts, start)
	return context.WithValue(ctx, operationKey{}, start.Operation)
}

func (o *operationsOnly) EndOperation(ctx context.Context, end rheo.OperationEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Value(operationKey{}) != end.Operation {
		panic("EndOperation is not given the ctx of StartOperation")
	}
	o.ends = append(o.ends, end)
}

// last returns the last end of the operation.
func (o *operationsOnly) last(operation rheo.Operation) rheo.OperationEnd {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, end := range slices.Backward(o.ends) {
		if end.Operation == operation {
			return end
		}
	}
	return rheo.OperationEnd{}
}

// everything notes all that there is to be told.
type everything struct {
	operationsOnly
	add map[string]string

	appends  []rheo.AppendEnd
	handlers []rheo.HandlerEnd
	events   []rheo.RuntimeEvent
}

type (
	appendKey  struct{}
	handlerKey struct{}
)

func (e *everything) StartAppend(ctx context.Context, start rheo.AppendStart) (context.Context, map[string]string) {
	return context.WithValue(ctx, appendKey{}, start.Stream), e.add
}

func (e *everything) EndAppend(ctx context.Context, end rheo.AppendEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Value(appendKey{}) != end.Stream {
		panic("EndAppend is not given the ctx of StartAppend")
	}
	e.appends = append(e.appends, end)
}

func (e *everything) StartHandler(ctx context.Context, start rheo.HandlerStart) context.Context {
	return context.WithValue(ctx, handlerKey{}, start.Deliveries[0].EventID)
}

func (e *everything) EndHandler(ctx context.Context, end rheo.HandlerEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Value(handlerKey{}) != end.Deliveries[0].EventID {
		panic("EndHandler is not given the ctx of StartHandler")
	}
	e.handlers = append(e.handlers, end)
}

func (e *everything) ObserveRuntime(_ context.Context, event rheo.RuntimeEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

// told returns the events of the kinds, each with what says more about it.
func (e *everything) told(kinds ...rheo.RuntimeEventKind) (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.events {
		if slices.Contains(kinds, event.Kind) {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s%s %s", event.Runtime, event.Kind, event.Operation, event.Delivery.EventID, event.Reason)))
		}
	}
	return all
}

// observed gives the bench's instance an observer.
func (b *bench) observed(o rheo.Observer) {
	b.t.Helper()
	var err error
	b.Instance, err = rheo.New(b.store, &rheo.Options{Name: "observed", Observer: o, Logger: slog.New(b.logs)})
	b.must(err)
}

// Every operation is told of, with what was asked for, and what was done.
func TestObservedOperations(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		o := &operationsOnly{}
		b.observed(o)
		ctx := b.t.Context()
		b.append("e1", "e2", "e3")
		b.append("e3", "e4")
		b.store.Inject(faultbackend.Delay(time.Second), faultbackend.Fetch)
		leases, err := b.Fetch(ctx, "stream", "group", rheo.FetchOptions{Max: 10, ConsumerID: "me"})
		b.must(err)
		b.must(b.Nack(ctx, "", 0, leases[0]))
		_, err = b.Renew(ctx, time.Minute, leases...)
		b.must(err)
		_, err = b.Settle(ctx,
			rheo.Settlement{Lease: leases[0], Outcome: rheo.OutcomeAck}, rheo.Settlement{Lease: leases[1], Outcome: rheo.OutcomeAck},
			rheo.Settlement{Lease: leases[2], Outcome: rheo.OutcomeReject}, rheo.Settlement{Lease: leases[3], Outcome: rheo.OutcomeRelease},
		)
		b.must(err)
		settled := o.last(rheo.OperationSettle)
		if want := (rheo.OutcomeCounts{Acked: 1, Rejected: 1, Released: 1}); settled.Outcomes != want || settled.Done != 3 || settled.Lost != 1 || settled.Count != 4 {
			b.t.Errorf("settle: %+v", settled)
		}
		if end := o.last(rheo.OperationRenew); end.Done != 3 || end.Lost != 1 || end.Count != 4 {
			b.t.Errorf("renew: %+v", end)
		}
		if end := o.last(rheo.OperationFetch); end.Done != 4 || end.Redelivered != 0 || end.Count != 10 || end.ConsumerID != "me" || end.Duration != time.Second {
			b.t.Errorf("fetch: %+v", end)
		}
		if end := o.last(rheo.OperationAppend); end.Done != 1 || end.Duplicates != 1 || end.Count != 2 || end.Stream != "stream" || end.Instance != "observed" {
			b.t.Errorf("append: %+v", end)
		}
		_, err = b.Fetch(ctx, "stream", "group", rheo.FetchOptions{Max: 10})
		b.must(err)
		if end := o.last(rheo.OperationFetch); end.Done != 2 || end.Redelivered != 1 {
			b.t.Errorf("fetch of what was nacked and what was released: %+v", end)
		}
		b.observeTheRest(o)
	})
}

func (b *bench) observeTheRest(o *operationsOnly) {
	ctx := b.t.Context()
	for _, test := range []struct {
		operation rheo.Operation
		done      int
		call      func() error
	}{
		{rheo.OperationEnsureSchema, 0, func() error { return b.EnsureSchema(ctx) }},
		{rheo.OperationCreateStream, 0, func() error { return b.CreateStream(ctx, "another", rheo.StreamConfig{}) }},
		{rheo.OperationCreateGroup, 0, func() error { return b.CreateGroup(ctx, "stream", "another", rheo.GroupConfig{}) }},
		{rheo.OperationStream, 0, func() error { _, err := b.StreamInfo(ctx, "stream"); return err }},
		{rheo.OperationStreams, 2, func() error { _, err := b.Streams(ctx); return err }},
		{rheo.OperationGroup, 0, func() error { _, err := b.GroupInfo(ctx, "stream", "group"); return err }},
		{rheo.OperationGroups, 2, func() error { _, err := b.Groups(ctx, "stream"); return err }},
		{rheo.OperationRead, 2, func() error { _, err := b.Read(ctx, "stream", 0, 0, 2); return err }},
		{rheo.OperationQuery, 3, func() error {
			_, err := b.QueryPage(ctx, "stream", rheo.Query{Limit: 3}, rheo.Cursor{})
			return err
		}},
		{rheo.OperationDeadLetters, 1, func() error {
			_, err := b.DeadLettersPage(ctx, "stream", "group", rheo.Cursor{}, 0)
			return err
		}},
		{rheo.OperationReplay, 4, func() error {
			_, err := b.Replay(ctx, "stream", "group", rheo.ReplaySelection{FromSequence: 1})
			return err
		}},
		{rheo.OperationReset, 0, func() error { return b.ResetGroup(ctx, "stream", "another", rheo.ResetOptions{Confirm: true}) }},
	} {
		b.must(test.call())
		if end := o.last(test.operation); end.Operation == "" || end.Done != test.done || end.Err != nil {
			b.t.Errorf("%s: %+v", test.operation, end)
		}
	}
	b.store.Inject(faultbackend.Fail(rheo.WrapError(rheo.ErrAmbiguous, errHandler, "")), faultbackend.Ping)
	if err := b.Ping(ctx); err == nil {
		b.t.Error("Ping did not fail")
	}
	if end := o.last(rheo.OperationPing); end.Reason != rheo.ReasonAmbiguous || !errors.Is(end.Err, errHandler) {
		b.t.Errorf("a failure: %+v", end)
	}
	if len(o.starts) != len(o.ends) {
		b.t.Errorf("%d starts, %d ends", len(o.starts), len(o.ends))
	}
	if b.Backend() != rheo.Backend(b.store) {
		b.t.Error("Backend is not the one that was given")
	}
}

// What is added to the metadata leaves the caller's maps alone, and what an event
// says of itself stands.
func TestObservedAppend(t *testing.T) {
	t.Parallel()
	o := &everything{add: map[string]string{"traceparent": "00-trace", "tenant": "observer"}}
	r, err := rheo.New(memory.New(nil), &rheo.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := r.CreateStream(ctx, "stream", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"tenant": "event"}
	results, err := r.Append(ctx, "stream", rheo.Event{ID: "with", Metadata: given}, rheo.Event{ID: "without"})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"traceparent": "00-trace", "tenant": "event"}; !maps.Equal(results[0].Metadata, want) {
		t.Errorf("metadata %v, want %v", results[0].Metadata, want)
	}
	if !maps.Equal(results[1].Metadata, o.add) || len(given) != 1 || len(o.add) != 2 {
		t.Errorf("metadata %v; given %v, added %v", results[1].Metadata, given, o.add)
	}
	prepared, err := r.Prepare(ctx, "stream", rheo.Event{})
	if err != nil || prepared[0].Metadata["traceparent"] != "00-trace" {
		t.Errorf("prepared: %v, %v", prepared, err)
	}
	o.add = map[string]string{"\x00": ""}
	if _, err := r.Append(ctx, "stream", rheo.Event{}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("what the observer adds is not checked: %v", err)
	}
	appended, preparation, refused := o.appends[0], o.appends[1], o.appends[2]
	if appended.Appended != 2 || appended.Events != 2 || appended.Prepared || appended.Err != nil {
		t.Errorf("append: %+v", appended)
	}
	if !preparation.Prepared || preparation.Appended != 0 || refused.Reason != rheo.ReasonInvalid {
		t.Errorf("prepare: %+v; refused: %+v", preparation, refused)
	}
}

// A handler gets the ctx that the observer has made, which is told what it made of
// the delivery.
func TestObservedHandlers(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 2}, func(b *bench) {
		o := &everything{}
		b.observed(o)
		b.append("ack", "nack", "reject", "panic", "lost")
		run := b.start(rheo.GroupOptions{
			Concurrency: 1, ConsumerID: "me", RetryBackoff: rheo.Backoff{Min: time.Hour, Max: time.Hour},
			Handler: func(ctx context.Context, d *rheo.Delivery) error {
				if ctx.Value(handlerKey{}) != d.ID {
					b.t.Error("the handler has not the observer's ctx")
				}
				time.Sleep(time.Second)
				switch d.ID {
				case "nack":
					return errHandler
				case "reject":
					return rheo.Reject(errHandler)
				case "panic":
					panic("at the handler")
				case "lost":
					b.must(b.ResetGroup(b.t.Context(), "stream", "group", rheo.ResetOptions{Confirm: true, Start: &rheo.Start{Kind: rheo.StartKindEnd}}))
					time.Sleep(20 * time.Second)
				}
				return nil
			},
		})
		time.Sleep(time.Minute)
		run.stop()
		want := map[string]rheo.HandlerResult{
			"ack":    {Outcome: rheo.OutcomeAck},
			"nack":   {Outcome: rheo.OutcomeNack, Err: errHandler},
			"reject": {Outcome: rheo.OutcomeReject, Err: errHandler},
			"panic":  {Outcome: rheo.OutcomeNack},
			"lost":   {Outcome: rheo.OutcomeAck, Lost: true},
		}
		for _, end := range o.handlers {
			id, got := end.Deliveries[0].EventID, end.Results[0]
			if got.Outcome != want[id].Outcome || got.Lost != want[id].Lost || want[id].Err != nil && !errors.Is(got.Err, want[id].Err) || end.Panicked != (id == "panic") {
				b.t.Errorf("%s: %+v, panicked %v", id, got, end.Panicked)
			}
			if end.Deliveries[0].Attempt != 1 || end.ConsumerID != "me" || end.Group != "group" || end.Duration < time.Second {
				b.t.Errorf("%s: %+v", id, end)
			}
		}
		if len(o.handlers) != len(want) {
			b.t.Errorf("%d handlers", len(o.handlers))
		}
		equal(b.t, "told", o.told(rheo.RuntimeLeasesLost, rheo.RuntimeDeadLettered), []string{"group dead_lettered reject", "group leases_lost"})
	})
}

// What happens to a runtime is told, and what it holds.
func TestObservedRuntimes(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 1, rheo.GroupConfig{MaxAttempts: 1}, func(b *bench) {
		o := &everything{}
		b.observed(o)
		p := b.produce(rheo.ProducerOptions{MaxDemand: 7, ConsumerID: "me", LeaseDuration: 10 * time.Second})
		result := p.receiveLater(b.t.Context(), 1)
		time.Sleep(1500 * time.Millisecond)
		b.append("e")
		lease := (<-result).leases[0]
		want := rheo.RuntimeInfo{Runtime: rheo.KindProducer, Stream: "stream", Group: "group", ConsumerID: "me", InFlight: 1, MaxDemand: 7}
		equal(b.t, "runtimes", b.Runtimes(), []rheo.RuntimeInfo{want})
		back := b.store.Inject(faultbackend.Fail(rheo.ErrUnavailable), faultbackend.Renew)
		time.Sleep(6 * time.Second)
		back()
		time.Sleep(6 * time.Second)
		b.must(p.Nack(b.t.Context(), "the last attempt", 0, lease))
		p.stop()
		equal(b.t, "runtimes", b.Runtimes(), nil)
		equal(b.t, "told", o.told(
			rheo.RuntimeStarted, rheo.RuntimeDraining, rheo.RuntimeStopped, rheo.RuntimeOutageBegan, rheo.RuntimeOutageEnded, rheo.RuntimeDeadLettered,
		), []string{
			"producer started", "producer outage_began renew unavailable", "producer outage_ended renew",
			"producer dead_lettered e", "producer draining", "producer stopped",
		})
		var wakes []string
		for _, event := range o.events {
			if event.Kind == rheo.RuntimeWoken {
				wakes = append(wakes, string(event.Wake))
			}
		}
		equal(b.t, "woken by", wakes, []string{"poll", "hint"})
	})
}

// A retry that becomes due wakes as such, and a run that fails says why.
func TestObservedFailure(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		o := &everything{}
		b.observed(o)
		b.append("e")
		run := b.start(rheo.GroupOptions{PollInterval: time.Hour, Handler: func(_ context.Context, d *rheo.Delivery) error {
			if d.Attempt == 1 {
				return rheo.RetryAfter(nil, time.Second)
			}
			b.store.Inject(faultbackend.Fail(rheo.ErrGroupNotFound), faultbackend.Fetch)
			return nil
		}})
		time.Sleep(2 * time.Second)
		b.append("f") // a hint
		synctest.Wait()
		if err := run.wait(); !errors.Is(err, rheo.ErrGroupNotFound) {
			b.t.Errorf("Run: %v", err)
		}
		last := o.events[len(o.events)-1]
		if last.Kind != rheo.RuntimeStopped || last.Reason != rheo.ReasonGroupNotFound || !errors.Is(last.Err, rheo.ErrGroupNotFound) {
			b.t.Errorf("the last event: %+v", last)
		}
		retried := slices.ContainsFunc(o.events, func(e rheo.RuntimeEvent) bool { return e.Wake == rheo.WakeRetry })
		if !retried {
			b.t.Errorf("no retry: %+v", o.events)
		}
	})
}
