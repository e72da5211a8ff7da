package delivery_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	now   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	group = delivery.Group{Partitions: []int{0, 1, 2}, MaxAttempts: 3}
)

// fetch leases the first n events of a partition of ten, on the ledger.
func fetch(t *testing.T, l *ledger.Ledger, partition, n int) []*rheo.Lease {
	t.Helper()
	f, err := delivery.NewFetch(rheo.FetchRequest{
		Stream: "s", Group: "g", Max: n, LeaseDuration: time.Minute, ConsumerID: "c",
	}, group, now)
	if err != nil {
		t.Fatal(err)
	}
	claimed := f.Apply(l, 10)
	f.Took(claimed.Spans)
	return f.Leases(nil, partition, claimed.Spans, func(sequence int64, e *rheo.Event) {
		e.Stream, e.Partition, e.Sequence = "s", partition, sequence
	})
}

func TestLeasesAreToldApart(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 2 {
		for _, lease := range fetch(t, ledger.New(0), 1, 10) {
			if seen[lease.LeaseID] {
				t.Fatalf("lease ID %s came twice", lease.LeaseID)
			}
			seen[lease.LeaseID] = true
			if lease.Attempt != 1 || !lease.ExpiresAt.Equal(now.Add(time.Minute)) {
				t.Errorf("lease %+v", lease)
			}
		}
	}
}

func TestSettleFindsTheDeliveryByItsTokens(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	held := fetch(t, l, 1, 4)
	foreign := fetch(t, ledger.New(0), 1, 1)[0]
	outside := fetch(t, ledger.New(0), 7, 1)[0]
	changed := func(change func(*rheo.Lease)) *rheo.Lease {
		lease := *held[3]
		change(&lease)
		return &lease
	}
	items := []struct {
		lease *rheo.Lease
		want  error
	}{
		{held[1], nil},
		{held[1], rheo.ErrStaleLease}, // settled by the item before
		{foreign, rheo.ErrStaleLease},
		{outside, rheo.ErrStaleLease},
		{changed(func(l *rheo.Lease) { l.Receipt = "1-3" }), rheo.ErrReceiptMismatch},
		{changed(func(l *rheo.Lease) { l.LeaseID = "" }), rheo.ErrStaleLease},
		{changed(func(l *rheo.Lease) { l.LeaseID = "nonsense-of-some-length" }), rheo.ErrStaleLease},
		{changed(func(l *rheo.Lease) { l.LeaseID = l.LeaseID[:len(l.LeaseID)-1] + "x" }), rheo.ErrStaleLease},
		{held[0], nil},
	}
	var request rheo.SettleRequest
	for _, item := range items {
		request.Settlements = append(request.Settlements, rheo.Settlement{Lease: item.lease, Outcome: rheo.OutcomeAck})
	}
	settle := delivery.NewSettle(request, group, now)
	if got := settle.Partitions(); !slices.Equal(got, []int{1}) {
		t.Fatalf("partitions %v", got)
	}
	if dead, changed := settle.Apply(1, l, 3); len(dead) > 0 || !changed {
		t.Errorf("dead %v, changed %t", dead, changed)
	}
	for i, err := range settle.Results() {
		if !errors.Is(err, items[i].want) {
			t.Errorf("item %d: %v, want %v", i, err, items[i].want)
		}
	}
	if l.Frontier() != 2 {
		t.Errorf("frontier %d", l.Frontier())
	}
}

// Applied again after a lost race, a plan's later result stands.
func TestPlansMayBeAppliedAgain(t *testing.T) {
	t.Parallel()
	l := ledger.New(0)
	leases := fetch(t, l, 0, 2)
	settle := delivery.NewSettle(rheo.SettleRequest{Settlements: []rheo.Settlement{
		{Lease: leases[0], Outcome: rheo.OutcomeReject, Reason: "no"},
	}}, group, now)
	renew := delivery.NewRenew(rheo.RenewRequest{Leases: leases, Duration: time.Hour}, group, now)

	taken := ledger.New(10) // somebody has settled them all
	if _, changed := settle.Apply(0, taken, 3); changed || !errors.Is(settle.Results()[0], rheo.ErrStaleLease) {
		t.Errorf("against the ledger of another: %v", settle.Results())
	}
	if renew.Apply(0, taken) || !errors.Is(renew.Results()[1].Err, rheo.ErrStaleLease) {
		t.Errorf("against the ledger of another: %v", renew.Results())
	}
	if !renew.Apply(0, l) || renew.Results()[1].Err != nil || !renew.Results()[1].ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("renewed: %v", renew.Results())
	}
	dead, changed := settle.Apply(0, l, 3)
	if !changed || settle.Results()[0] != nil || len(dead) != 1 || dead[0].Reason != "no" {
		t.Errorf("settled: %v, dead %v", settle.Results(), dead)
	}
}

func TestFetchesTakeTurns(t *testing.T) {
	t.Parallel()
	f, err := delivery.NewFetch(rheo.FetchRequest{Group: "g", Max: 1, LeaseDuration: time.Minute}, group, now)
	if err != nil {
		t.Fatal(err)
	}
	for turn, want := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}} {
		if got := f.Order(uint64(turn)); !slices.Equal(got, want) {
			t.Errorf("turn %d: %v, want %v", turn, got, want)
		}
	}
	_, err = delivery.NewFetch(rheo.FetchRequest{Group: "g", Partitions: []int{1, 3}}, group, now)
	if !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("a partition that the group does not read: %v", err)
	}
}
