package mongotest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// step is one operation, and the most commands that it may take.
type step struct {
	name string
	most int
	do   func() error
}

func measure(t *testing.T, s *store, steps []step) {
	t.Helper()
	for _, step := range steps {
		s.proxy.takeCounts()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		counts, sum := s.proxy.takeCounts(), 0
		for _, n := range counts {
			sum += n
		}
		t.Logf("%s: %d commands %v", step.name, sum, counts)
		if sum > step.most {
			t.Errorf("%s took %d commands, want %d at most: %v", step.name, sum, step.most, counts)
		}
	}
}

// TestCommands counts the commands of each operation, whatever the batch.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 100} {
		for _, partitions := range []int{1, 4} {
			t.Run(fmt.Sprintf("batches of %d on %d partitions", size, partitions), func(t *testing.T) {
				t.Parallel()
				s := newStore(t, mongo.Options{})
				s.create(t, "orders", partitions, "g")
				countCommands(t, s, s, size)
			})
		}
	}
}

// TestCommandsOfAnother counts those of a process that consumes what another one
// appends.
func TestCommandsOfAnother(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 100} {
		t.Run(fmt.Sprint("batches of ", size), func(t *testing.T) {
			t.Parallel()
			s := newStore(t, mongo.Options{})
			s.create(t, "orders", 4, "g")
			other := s.besideProxy(t)
			if _, err := other.GroupInfo(t.Context(), "orders", "g"); err != nil {
				t.Fatal(err)
			}
			countCommands(t, s, other, size)
		})
	}
}

func countCommands(t *testing.T, writer, reader *store, size int) {
	t.Helper()
	ctx := t.Context()
	batch := make([]rheo.Event, size)
	for i := range batch {
		batch[i] = rheo.Event{Key: fmt.Sprint(i), Payload: []byte(`{"n":1}`)}
	}
	var leases []*rheo.Lease
	appends := []step{{"append", 2, func() error { _, err := writer.Append(ctx, "orders", batch...); return err }}}
	first := func() error { _, err := writer.Append(ctx, "orders", batch...); return err }
	if err := first(); err != nil { // in which the schema is looked at
		t.Fatal(err)
	}
	measure(t, writer, appends)
	measure(t, reader, []step{
		{"fetch", 3, func() (err error) {
			leases, err = reader.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: size})
			if err == nil && len(leases) != size {
				err = fmt.Errorf("there are %d leases", len(leases))
			}
			return err
		}},
		{"renew", 2, func() error { _, err := reader.Renew(ctx, time.Minute, leases...); return err }},
		{"settle", 2, func() error {
			settlements := make([]rheo.Settlement, len(leases))
			for i, l := range leases {
				o := []rheo.Outcome{rheo.OutcomeAck, rheo.OutcomeNack, rheo.OutcomeReject, rheo.OutcomeRelease}[i%4]
				settlements[i] = rheo.Settlement{Lease: l, Outcome: o, Reason: fmt.Sprint("reason ", i)}
			}
			results, err := reader.Settle(ctx, settlements...)
			return errors.Join(append(results, err)...)
		}},
		{"fetch of redeliveries and the rest", 3, func() (err error) {
			leases, err = reader.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: 2 * size})
			return err
		}},
		{"fetch of nothing", 2, func() error {
			none, err := reader.Fetch(ctx, "orders", "g", rheo.FetchOptions{Max: size})
			if len(none) > 0 {
				err = errors.New("there was something")
			}
			return err
		}},
		{"ack", 2, func() error { return reader.Ack(ctx, leases...) }},
		{"read", 1, func() error { _, err := reader.Read(ctx, "orders", 0, 0, 100); return err }},
		{"query", 2, func() error { _, err := reader.Query(ctx, "orders", rheo.Query{}); return err }},
		{"lag", 2, func() error { _, err := reader.Lag(ctx, "orders", "g"); return err }},
	})
}
