package rheootel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/rheootel"
)

func TestGauges(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	old := time.Now().Add(-time.Hour)
	for _, id := range []string{"1", "2", "3", "4"} {
		_, err := p.Append(t.Context(), "orders", rheo.Event{ID: id, Timestamp: old})
		p.must(err)
	}
	leases, err := p.Fetch(t.Context(), "orders", "billing", rheo.FetchOptions{Max: 3})
	p.must(err)
	p.must(p.Reject(t.Context(), "no", leases[1]))
	p.must(p.Nack(t.Context(), "later", time.Hour, leases[2]))
	registration, err := p.observer.RegisterGauges(p.Instance, rheootel.GaugeOptions{
		Groups: []rheootel.GroupName{{Stream: "orders", Group: "billing"}},
	})
	p.must(err)
	p.expect(map[string]map[string]float64{
		"rheo.group.lag":          {inBilling: 4},
		"rheo.group.in_flight":    {inBilling: 1},
		"rheo.group.waiting":      {inBilling: 1},
		"rheo.group.dead_letters": {inBilling: 1},
		"rheo.runtime.in_flight":  nil,
	})
	metrics, err := p.collect()
	p.must(err)
	if age := metrics["rheo.group.oldest_unacked"][inBilling]; age < 3600 || age > 4200 {
		t.Errorf("the oldest unacked is %v s old, want an hour", age)
	}
	p.must(registration.Unregister())
	p.expect(map[string]map[string]float64{"rheo.group.lag": nil})
}

// What a runtime of this process holds needs no call to the store.
func TestRuntimeGauges(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	_, err := p.observer.RegisterGauges(p.Instance, rheootel.GaugeOptions{})
	p.must(err)
	p.append(t.Context(), "1", "2")
	var looked sync.Once // by one handler, while the other waits for it
	p.run(rheo.GroupOptions{MaxDemand: 50, Concurrency: 2, Handler: func(context.Context, *rheo.Delivery) error {
		looked.Do(func() {
			p.eventually("both are in flight", func() bool {
				metrics, err := p.collect()
				p.must(err)
				return metrics["rheo.runtime.in_flight"][inBilling] == 2 && metrics["rheo.runtime.max_demand"][inBilling] == 50
			})
		})
		return nil
	}})
}

// hanging is a store that does not answer for one group.
type hanging struct{ rheo.Backend }

func (h hanging) Group(ctx context.Context, stream, group string) (rheo.GroupInfo, error) {
	if group == "hangs" {
		<-ctx.Done()
		return rheo.GroupInfo{}, rheo.WrapError(rheo.ErrUnavailable, ctx.Err(), "reading the group")
	}
	return h.Backend.Group(ctx, stream, group)
}

// A group that cannot be asked delays a collection by no more than the timeout, and
// leaves the values of those before it.
func TestGaugesTimeout(t *testing.T) {
	t.Parallel()
	p := newProcess(t, hanging{newStore()}, rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	registration, err := p.observer.RegisterGauges(p.Instance, rheootel.GaugeOptions{
		Groups: []rheootel.GroupName{
			{Stream: "orders", Group: "nobody"}, {Stream: "orders", Group: "billing"}, {Stream: "orders", Group: "hangs"},
		},
		Timeout: 50 * time.Millisecond,
	})
	p.must(err)
	metrics, err := p.collect()
	if !errors.Is(err, rheo.ErrGroupNotFound) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the collection says %v", err)
	}
	if _, told := metrics["rheo.group.lag"][inBilling]; !told || len(metrics["rheo.group.lag"]) != 1 {
		t.Errorf("lag %v, want billing's", metrics["rheo.group.lag"])
	}
	p.must(registration.Unregister())
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	if _, err := rheootel.New(&rheootel.Options{HandlerSpans: 7}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("an unknown HandlerSpans: %v", err)
	}
	observer, err := rheootel.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := observer.RegisterGauges(nil, rheootel.GaugeOptions{}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("no instance: %v", err)
	}
	instance, err := rheo.New(newStore(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := observer.RegisterGauges(instance, rheootel.GaugeOptions{Timeout: -1}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("a negative timeout: %v", err)
	}
}
