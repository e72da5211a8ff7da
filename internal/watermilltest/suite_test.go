package watermilltest_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/rheowatermill"
)

// setting is a way to run Watermill's suite.
type setting struct {
	partitions int
	ordering   rheo.Ordering
	// restart, if set, is a command that takes the server down for a moment.
	restart []string
	// short has the suite send hundreds of messages instead of thousands.
	short bool
}

// ordered and unordered are what a group may be: in the one, all that Watermill
// says of order must hold, for any number of subscribers.
var (
	unordered = setting{partitions: 4, ordering: rheo.OrderingNone}
	ordered   = setting{partitions: 1, ordering: rheo.OrderingPartition}
)

// run runs the suite. Each subscriber that it makes has an instance of its own,
// as if it were in a process of its own; open returns backends of one store.
func run(t *testing.T, s setting, open func(t *testing.T) rheo.Backend) {
	t.Helper()
	features := tests.Features{
		ConsumerGroups: true,
		// Every event is in the store until its group has settled it, and after.
		Persistent:            true,
		GuaranteedOrder:       s.ordering == rheo.OrderingPartition,
		RestartServiceCommand: s.restart,
		ForceShort:            s.short,
		// At least once: not ExactlyOnceDelivery. Contexts do not travel through a
		// store: not ContextPreserved. That a subscriber has old messages holds of
		// a new group: see testOldMessages.
	}
	inGroup := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		return newPubSub(t, open(t), s, group)
	}
	tests.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return inGroup(t, "subscribers")
	}, inGroup)
	t.Run("TestNewSubscriberReceivesOldMessages", func(t *testing.T) {
		t.Parallel()
		features.NewSubscriberReceivesOldMessages = true
		tests.TestNewSubscriberReceivesOldMessages(t, tests.TestContext{TestID: tests.NewTestID(), Features: features},
			func(t *testing.T) (message.Publisher, message.Subscriber) {
				t.Helper()
				return inGroup(t, watermill.NewUUID())
			})
	})
}

func newPubSub(t *testing.T, backend rheo.Backend, s setting, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	instance, err := rheo.New(backend, &rheo.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	topic := rheo.StreamConfig{Partitions: s.partitions}
	publisher, err := rheowatermill.NewPublisher(instance, rheowatermill.PublisherConfig{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	// The suite nacks messages hundreds of times and wants them back each time.
	create := rheo.GroupConfig{MaxAttempts: 10_000, Ordering: s.ordering}
	subscriber, err := rheowatermill.NewSubscriber(instance, rheowatermill.SubscriberConfig{
		Group: group, Create: create, Topic: topic, Logger: logger,
		LeaseDuration: 3 * time.Second, // what a killed server forgot it had handed out comes again then
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // not every case of the suite closes what it makes
		if err := subscriber.Close(); err != nil {
			t.Error(err)
		}
	})
	return publisher, subscriber
}
