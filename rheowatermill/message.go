package rheowatermill

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/rheo-go/rheo"
)

// delivery is what a message is made of, and what its handler has chosen for a
// nack of it.
type delivery struct {
	lease *rheo.Lease

	mu     sync.Mutex
	choice *rheo.Settlement
}

type deliveryKey struct{}

func newMessage(ctx context.Context, d *delivery) (*message.Message, error) {
	payload, err := decodePayload(d.lease.Payload, d.lease.Metadata[MetadataEncoding])
	if err != nil {
		return nil, err
	}
	msg := message.NewMessage(d.lease.ID, payload)
	for k, v := range d.lease.Metadata {
		if k != MetadataEncoding {
			msg.Metadata[k] = v
		}
	}
	msg.SetContext(context.WithValue(ctx, deliveryKey{}, d))
	return msg, nil
}

func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// Lease returns the lease on the event that the message of this context, or one
// derived from it, was made of: with its attempt, partition, sequence, timestamp
// and key. It returns nil if the message did not come from a [Subscriber]. The
// lease must not be changed, and is settled by acking or nacking the message.
func Lease(ctx context.Context) *rheo.Lease {
	if d := deliveryOf(ctx); d != nil {
		return d.lease
	}
	return nil
}

// Reject nacks the message such that it becomes a dead letter with err as its
// reason. It reports false, as [message.Message.Nack] does, if the message was
// acked before; and if it did not come from a [Subscriber], which nacks it.
func Reject(msg *message.Message, err error) bool {
	return nackAs(msg, rheo.Settlement{Outcome: rheo.OutcomeReject, Reason: reasonOf(err)})
}

// RetryAfter nacks the message such that it is delivered again after the delay,
// with err as the reason. For its result see [Reject].
func RetryAfter(msg *message.Message, err error, delay time.Duration) bool {
	delay = min(max(delay, 0), rheo.MaxDelay)
	return nackAs(msg, rheo.Settlement{Outcome: rheo.OutcomeNack, Delay: delay, Reason: reasonOf(err)})
}

func reasonOf(err error) string {
	if err == nil {
		return "nacked"
	}
	return err.Error()
}

func nackAs(msg *message.Message, settlement rheo.Settlement) bool {
	d := deliveryOf(msg.Context())
	if d != nil {
		d.mu.Lock()
		d.choice = &settlement
		d.mu.Unlock()
	}
	return msg.Nack() && d != nil
}

// chosen returns the handler's choice, or else the settlement given.
func (d *delivery) chosen(otherwise rheo.Settlement) rheo.Settlement {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.choice != nil {
		return *d.choice
	}
	return otherwise
}
