package rheowatermill_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheowatermill"
)

// patience bounds every wait for a message.
const patience = 10 * time.Second

// pubsub is a publisher and a subscriber on a store in memory.
type pubsub struct {
	*testing.T
	instance   *rheo.Instance
	publisher  *rheowatermill.Publisher
	subscriber *rheowatermill.Subscriber
}

func open(t *testing.T, p rheowatermill.PublisherConfig, s rheowatermill.SubscriberConfig) *pubsub {
	t.Helper()
	instance, err := rheo.New(memory.New(nil), &rheo.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.Close(); err != nil {
			t.Error(err)
		}
	})
	ps := &pubsub{T: t, instance: instance}
	if ps.publisher, err = rheowatermill.NewPublisher(instance, p); err != nil {
		t.Fatal(err)
	}
	ps.subscriber = ps.another(s)
	return ps
}

// another returns another subscriber on the same instance.
func (ps *pubsub) another(s rheowatermill.SubscriberConfig) *rheowatermill.Subscriber {
	ps.Helper()
	if s.Group == "" {
		s.Group = "group"
	}
	s.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	subscriber, err := rheowatermill.NewSubscriber(ps.instance, s)
	if err != nil {
		ps.Fatal(err)
	}
	ps.Cleanup(func() {
		if err := subscriber.Close(); err != nil {
			ps.Error(err)
		}
	})
	return subscriber
}

func (ps *pubsub) publish(messages ...*message.Message) {
	ps.Helper()
	if err := ps.publisher.Publish("topic", messages...); err != nil {
		ps.Fatal(err)
	}
}

func (ps *pubsub) subscribe() <-chan *message.Message {
	ps.Helper()
	messages, err := ps.subscriber.Subscribe(ps.Context(), "topic")
	if err != nil {
		ps.Fatal(err)
	}
	return messages
}

func (ps *pubsub) next(messages <-chan *message.Message) *message.Message {
	ps.Helper()
	select {
	case m, open := <-messages:
		if !open {
			ps.Fatal("the channel is closed")
		}
		return m
	case <-time.After(patience):
		ps.Fatalf("no message within %v", patience)
		return nil
	}
}

// settled closes the subscriber, which settles all that was acked or nacked.
func (ps *pubsub) settled() rheo.GroupInfo {
	ps.Helper()
	if err := ps.subscriber.Close(); err != nil {
		ps.Fatal(err)
	}
	info, err := ps.instance.GroupInfo(ps.Context(), "topic", "group")
	if err != nil {
		ps.Fatal(err)
	}
	return info
}

func (ps *pubsub) deadLetters() (reasons []string) {
	ps.Helper()
	for d, err := range ps.instance.DeadLetters(ps.Context(), "topic", "group") {
		if err != nil {
			ps.Fatal(err)
		}
		reasons = append(reasons, d.EventID+": "+d.Reason)
	}
	return reasons
}

// payloads maps each to what must come back, if that is not the same bytes.
var payloads = map[string]string{
	"":                        "",
	"x":                       "x",
	"null":                    "null",
	`{"a":1}`:                 `{"a":1}`,
	`{"a":`:                   `{"a":`,
	`"already a string"`:      `"already a string"`,
	"\x00\x01\xfe\xff":        "\x00\x01\xfe\xff",
	"zero\x00inside":          "zero\x00inside",
	"smörgås 🥪\n":             "smörgås 🥪\n",
	"1e999":                   "1e999", // JSON, but no number that every store keeps
	strings.Repeat("[", 1000): strings.Repeat("[", 1000),
	strings.Repeat("[", 100) + strings.Repeat("]", 100): strings.Repeat("[", 100) + strings.Repeat("]", 100),
}

func TestPayloadsComeBack(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprint("exact ", exact), func(t *testing.T) {
			t.Parallel()
			ps := open(t, rheowatermill.PublisherConfig{ExactPayload: exact}, rheowatermill.SubscriberConfig{})
			want := make(map[string]string)
			for sent, back := range payloads {
				m := message.NewMessage(fmt.Sprint("id", len(want)), []byte(sent))
				m.Metadata.Set("colour", "blå")
				want[m.UUID] = back
				ps.publish(m)
			}
			messages := ps.subscribe()
			for range want {
				m := ps.next(messages)
				if string(m.Payload) != want[m.UUID] {
					t.Errorf("payload %q came back as %q", want[m.UUID], m.Payload)
				}
				if len(m.Metadata) != 1 || m.Metadata.Get("colour") != "blå" {
					t.Errorf("metadata %v", m.Metadata)
				}
				m.Ack()
			}
		})
	}
}

// What is JSON can be queried by its fields, and key, type and ID are the event's.
func TestMessagesAreEvents(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{Topic: rheo.StreamConfig{Partitions: 8}}, rheowatermill.SubscriberConfig{})
	m := message.NewMessage("id", []byte(`{"order":{"total":12}}`))
	m.Metadata.Set("key", "customer-7")
	m.Metadata.Set("type", "order.placed")
	ps.publish(m)
	ps.publish(m) // once more: the UUID is there
	found, err := ps.instance.Query(t.Context(), "topic", rheo.Query{Where: []rheo.Condition{rheo.Where("payload.order.total", rheo.OpEq, 12)}})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	e := found[0]
	if e.ID != "id" || e.Key != "customer-7" || e.Type != "order.placed" || e.Partition != rheo.PHash2("customer-7", 8) {
		t.Errorf("event %+v", e)
	}
}

func TestLeaseIsReachable(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{}, rheowatermill.SubscriberConfig{})
	ps.publish(message.NewMessage("id", nil))
	messages := ps.subscribe()
	for attempt := 1; attempt <= 2; attempt++ {
		m := ps.next(messages)
		ctx, cancel := context.WithCancel(m.Context())
		l := rheowatermill.Lease(ctx)
		cancel()
		if l == nil || l.Attempt != attempt || l.Sequence != 1 || l.LeaseID == "" {
			t.Fatalf("lease %+v, want attempt %d", l, attempt)
		}
		m.Nack()
	}
	if rheowatermill.Lease(t.Context()) != nil {
		t.Error("a lease out of nothing")
	}
}

// What a nack comes to is the configuration's choice, or the handler's.
func TestNacks(t *testing.T) {
	t.Parallel()
	never := errors.New("cannot be done")
	for _, c := range []struct {
		name        string
		config      rheowatermill.SubscriberConfig
		nack        func(*message.Message) bool
		waiting     int64
		deadLetters []string
	}{
		{"nack", rheowatermill.SubscriberConfig{NackBackoff: rheo.Backoff{Min: time.Hour, Max: time.Hour}}, (*message.Message).Nack, 1, nil},
		{"nack as reject", rheowatermill.SubscriberConfig{NackAs: rheo.OutcomeReject}, (*message.Message).Nack, 0, []string{"id: nacked"}},
		{"attempts used up", rheowatermill.SubscriberConfig{Create: rheo.GroupConfig{MaxAttempts: 1}}, (*message.Message).Nack, 0, []string{"id: nacked"}},
		{"reject", rheowatermill.SubscriberConfig{}, func(m *message.Message) bool { return rheowatermill.Reject(m, never) }, 0, []string{"id: cannot be done"}},
		{"reject without a reason", rheowatermill.SubscriberConfig{}, func(m *message.Message) bool { return rheowatermill.Reject(m, nil) }, 0, []string{"id: nacked"}},
		{
			"retry after",
			rheowatermill.SubscriberConfig{NackAs: rheo.OutcomeReject},
			func(m *message.Message) bool { return rheowatermill.RetryAfter(m, never, time.Hour) }, 1, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ps := open(t, rheowatermill.PublisherConfig{}, c.config)
			ps.publish(message.NewMessage("id", nil))
			if !c.nack(ps.next(ps.subscribe())) {
				t.Error("the nack was not taken")
			}
			info := ps.settled()
			if info.Waiting() != c.waiting || !slices.Equal(ps.deadLetters(), c.deadLetters) {
				t.Errorf("%d waiting, dead letters %q; want %d, %q", info.Waiting(), ps.deadLetters(), c.waiting, c.deadLetters)
			}
		})
	}
}

func TestRejectOfWhatIsNoneOfOurs(t *testing.T) {
	t.Parallel()
	foreign := message.NewMessage("id", nil)
	if rheowatermill.Reject(foreign, nil) {
		t.Error("it was rejected")
	}
	select {
	case <-foreign.Nacked():
	default:
		t.Error("it was not nacked")
	}
	acked := message.NewMessage("id", nil)
	acked.Ack()
	if rheowatermill.RetryAfter(acked, nil, 0) {
		t.Error("it was acked before")
	}
}

// An event whose payload does not fit its mark becomes a dead letter, and those
// behind it are delivered.
func TestBrokenEncoding(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{}, rheowatermill.SubscriberConfig{})
	ps.publish()
	if err := ps.subscriber.SubscribeInitialize("topic"); err != nil {
		t.Fatal(err)
	}
	broken := func(id, encoding, payload string) rheo.Event {
		return rheo.Event{ID: id, Payload: []byte(payload), Metadata: map[string]string{rheowatermill.MetadataEncoding: encoding}}
	}
	_, err := ps.instance.Append(t.Context(), "topic",
		broken("a", "text", "1"), broken("b", "base64", `"%"`), broken("c", "rot13", `"uryyb"`), rheo.Event{ID: "d"})
	if err != nil {
		t.Fatal(err)
	}
	m := ps.next(ps.subscribe())
	if m.UUID != "d" {
		t.Errorf("got %s", m.UUID)
	}
	m.Ack()
	info := ps.settled()
	if dead := ps.deadLetters(); len(dead) != 3 || info.Lag() != 0 {
		t.Errorf("lag %d, dead letters %q", info.Lag(), dead)
	}
}

// Subscribers of one instance share a producer, whoever comes and goes.
func TestSubscribersShare(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{}, rheowatermill.SubscriberConfig{})
	ps.publish(message.NewMessage("a", nil), message.NewMessage("b", nil))
	other := ps.another(rheowatermill.SubscriberConfig{})
	first := ps.next(ps.subscribe())
	messages, err := other.Subscribe(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	if err := ps.subscriber.Close(); err != nil { // gives both back
		t.Fatal(err)
	}
	if first.Context().Err() == nil {
		t.Error("the message's context goes on after its subscriber has closed")
	}
	for range 2 {
		m := ps.next(messages)
		if a := rheowatermill.Lease(m.Context()).Attempt; a != 1 {
			t.Errorf("attempt %d of %s: closing spent one", a, m.UUID)
		}
		m.Ack()
	}
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{}, rheowatermill.SubscriberConfig{})
	messages := ps.subscribe()
	for range 2 {
		if err := errors.Join(ps.publisher.Close(), ps.subscriber.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, open := <-messages; open {
		t.Error("a message after Close")
	}
	if err := ps.publisher.Publish("topic", message.NewMessage("a", nil)); !errors.Is(err, rheo.ErrClosed) {
		t.Errorf("Publish: %v", err)
	}
	if _, err := ps.subscriber.Subscribe(t.Context(), "topic"); !errors.Is(err, rheo.ErrClosed) {
		t.Errorf("Subscribe: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	ps := open(t, rheowatermill.PublisherConfig{ExistingTopics: true}, rheowatermill.SubscriberConfig{ExistingTopics: true})
	if err := ps.publisher.Publish("topic", message.NewMessage("a", nil)); !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Errorf("Publish: %v", err)
	}
	if _, err := ps.subscriber.Subscribe(t.Context(), "topic"); !errors.Is(err, rheo.ErrStreamNotFound) {
		t.Errorf("Subscribe: %v", err)
	}
	if err := ps.instance.CreateStream(t.Context(), "topic", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := ps.subscriber.SubscribeInitialize("topic"); !errors.Is(err, rheo.ErrGroupNotFound) {
		t.Errorf("SubscribeInitialize: %v", err)
	}
	bad := message.NewMessage("a", nil)
	bad.Metadata.Set("nul", "\x00")
	if err := ps.publisher.Publish("topic", message.NewMessage("b", nil), bad); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("Publish: %v", err)
	}
	info, err := ps.instance.StreamInfo(t.Context(), "topic")
	if err != nil || info.Events() != 0 {
		t.Errorf("%d events, %v", info.Events(), err)
	}
	for _, c := range []rheowatermill.SubscriberConfig{
		{},
		{Group: "g", NackAs: rheo.OutcomeAck},
		{Group: "g", Prefetch: -1},
		{Group: "g", MaxDemand: -1},
		{Group: "g", CloseTimeout: -1},
		{Group: "g", LeaseDuration: time.Nanosecond},
		{Group: "g", NackBackoff: rheo.Backoff{Min: 2, Max: 1}},
	} {
		if _, err := rheowatermill.NewSubscriber(ps.instance, c); !errors.Is(err, rheo.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
