package rheootel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/rheootel"
)

const (
	inOrders  = "rheo.stream=orders"
	inBilling = "rheo.group=billing,rheo.stream=orders"
)

// expect compares what the metrics named hold with what they should.
func (p *process) expect(want map[string]map[string]float64) {
	p.t.Helper()
	all, err := p.collect()
	p.must(err)
	got := map[string]map[string]float64{}
	for name := range want {
		got[name] = all[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("metrics, -want +got: %s", diff)
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{MaxAttempts: 2})
	p.append(t.Context(), "fine", "refused", "poison", "again")
	p.append(t.Context(), "fine")
	released := false
	p.run(rheo.GroupOptions{Concurrency: 1, Handler: func(_ context.Context, d *rheo.Delivery) error {
		switch {
		case d.ID == "refused":
			return rheo.Reject(errDeclined)
		case d.ID == "poison":
			panic("poison")
		case d.ID == "again" && !released:
			released = true
			return rheo.Release(errDeclined)
		}
		return nil
	}})
	p.expect(map[string]map[string]float64{
		"rheo.events.appended":        {inOrders: 4},
		"rheo.events.duplicate":       {inOrders: 1},
		"rheo.deliveries.fetched":     {inBilling: 6},
		"rheo.deliveries.redelivered": {inBilling: 1}, // a release spends no attempt
		"rheo.deliveries.settled": {
			"rheo.group=billing,rheo.outcome=ack,rheo.stream=orders":     2,
			"rheo.group=billing,rheo.outcome=nack,rheo.stream=orders":    2,
			"rheo.group=billing,rheo.outcome=reject,rheo.stream=orders":  1,
			"rheo.group=billing,rheo.outcome=release,rheo.stream=orders": 1,
		},
		"rheo.deliveries.dead_lettered": {inBilling: 2},
		"rheo.handler.panics":           {inBilling: 2},
		"rheo.handler.duration": {
			"rheo.group=billing,rheo.outcome=ack,rheo.stream=orders":     2,
			"rheo.group=billing,rheo.outcome=nack,rheo.stream=orders":    2,
			"rheo.group=billing,rheo.outcome=reject,rheo.stream=orders":  1,
			"rheo.group=billing,rheo.outcome=release,rheo.stream=orders": 1,
		},
		"rheo.runtime.running": {inBilling: 0},
	})
}

// Lost leases are told from those that were settled.
func TestLostLeaseCounters(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	p.append(t.Context(), "order-1")
	leases, err := p.Fetch(t.Context(), "orders", "billing", rheo.FetchOptions{})
	p.must(err)
	_, err = p.Renew(t.Context(), time.Minute, leases...)
	p.must(err)
	p.must(p.ResetGroup(t.Context(), "orders", "billing", rheo.ResetOptions{Confirm: true}))
	if err := p.Ack(t.Context(), leases...); !errors.Is(err, rheo.ErrStaleLease) {
		t.Fatal(err)
	}
	p.expect(map[string]map[string]float64{
		"rheo.leases.renewed": {inBilling: 1},
		"rheo.deliveries.settled": {
			"rheo.group=billing,rheo.outcome=lost,rheo.reason=stale_lease,rheo.stream=orders": 1,
		},
	})
}

// failing is a store that fails to settle and to renew, and loses fetches.
type failing struct {
	rheo.Backend
}

var errAway = rheo.Errorf(rheo.ErrUnavailable, "away")

func (f failing) Settle(context.Context, rheo.SettleRequest) ([]error, error) { return nil, errAway }

func (f failing) Renew(context.Context, rheo.RenewRequest) ([]rheo.RenewResult, error) {
	return nil, errAway
}

// A call to the store that fails is counted by its reason.
func TestFailures(t *testing.T) {
	t.Parallel()
	p := newProcess(t, failing{newStore()}, rheootel.Options{})
	p.createGroup(rheo.GroupConfig{})
	p.append(t.Context(), "order-1", "order-2")
	leases, err := p.Fetch(t.Context(), "orders", "billing", rheo.FetchOptions{Max: 2})
	p.must(err)
	if err := p.Ack(t.Context(), leases...); !errors.Is(err, rheo.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := p.Renew(t.Context(), time.Minute, leases...); !errors.Is(err, rheo.ErrUnavailable) {
		t.Fatal(err)
	}
	p.expect(map[string]map[string]float64{
		"rheo.deliveries.settled": {
			"rheo.group=billing,rheo.outcome=failed,rheo.reason=unavailable,rheo.stream=orders": 2,
		},
		"rheo.leases.renewed": nil,
	})
	metrics, err := p.collect()
	p.must(err)
	for _, operation := range []string{"settle", "renew"} {
		failed := "rheo.group=billing,rheo.operation=" + operation + ",rheo.reason=unavailable,rheo.stream=orders"
		if n := metrics["rheo.operation.duration"][failed]; n != 1 {
			t.Errorf("%v times %s, want 1", n, failed)
		}
	}
}

// What a runtime tells is counted.
func TestRuntimeEvents(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{})
	for _, e := range []rheo.RuntimeEvent{
		{Kind: rheo.RuntimeStarted},
		{Kind: rheo.RuntimeOutageBegan, Operation: rheo.OperationRenew, Reason: rheo.ReasonUnavailable, Err: errAway},
		{Kind: rheo.RuntimeOutageEnded, Operation: rheo.OperationRenew, Count: 7},
		{Kind: rheo.RuntimeLeasesLost, Count: 3},
		{Kind: rheo.RuntimeDeadLettered, Count: 1, Delivery: rheo.DeliveryInfo{EventID: "order-1"}},
		{Kind: rheo.RuntimeWoken, Wake: rheo.WakePoll},
	} {
		e.Stream, e.Group = "orders", "billing"
		p.observer.ObserveRuntime(t.Context(), e)
	}
	p.expect(map[string]map[string]float64{
		"rheo.runtime.running": {inBilling: 1},
		"rheo.runtime.outages": {
			"rheo.group=billing,rheo.operation=renew,rheo.reason=unavailable,rheo.stream=orders": 1,
		},
		"rheo.leases.lost":              {inBilling: 3},
		"rheo.deliveries.dead_lettered": {inBilling: 1},
		"rheo.runtime.wakeups":          {"rheo.group=billing,rheo.reason=poll,rheo.stream=orders": 1},
	})
}

// However many names a caller makes up, the attributes stay few.
func TestBoundedCardinality(t *testing.T) {
	t.Parallel()
	p := newProcess(t, newStore(), rheootel.Options{Attributes: []attribute.KeyValue{attribute.String("shop", "a")}})
	p.createGroup(rheo.GroupConfig{})
	for n := range 50 {
		name := strings.Repeat("x", n+1)
		if _, err := p.Append(t.Context(), name, rheo.Event{}); !errors.Is(err, rheo.ErrStreamNotFound) {
			t.Fatal(err)
		}
		if _, err := p.Fetch(t.Context(), "orders", name, rheo.FetchOptions{}); !errors.Is(err, rheo.ErrGroupNotFound) {
			t.Fatal(err)
		}
	}
	p.append(t.Context(), "order-1")
	p.expect(map[string]map[string]float64{
		"rheo.operation.duration": {
			"rheo.operation=stream,rheo.reason=stream_not_found,shop=a":                  50,
			"rheo.operation=fetch,rheo.reason=group_not_found,rheo.stream=orders,shop=a": 50,
			"rheo.operation=create_stream,rheo.stream=orders,shop=a":                     1,
			"rheo.operation=stream,rheo.stream=orders,shop=a":                            1,
			"rheo.group=billing,rheo.operation=create_group,rheo.stream=orders,shop=a":   1,
			"rheo.operation=append,rheo.stream=orders,shop=a":                            1,
		},
	})
}
