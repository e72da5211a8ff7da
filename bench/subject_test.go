package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo/internal/testservers"
)

// TestSubjects checks that what is measured really happens: each event is
// delivered, once, whatever the callers.
func TestSubjects(t *testing.T) {
	for _, subject := range testedSubjects(t) {
		for _, callers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/callers=%d", subject.Name(), callers), func(t *testing.T) {
				w := Workload{Events: 1050, Batch: 100, Callers: callers, Timeout: 30 * time.Second}
				appended, err := MeasureAppend(t.Context(), subject, w)
				if err != nil {
					t.Fatal(err)
				}
				if appended.Events != w.Events || appended.Partial || appended.PerSecond() <= 0 {
					t.Errorf("append: got %+v, want %d events", appended, w.Events)
				}
				checkCycle(t, subject, w)
			})
		}
	}
}

func checkCycle(t *testing.T, subject Subject, w Workload) {
	t.Helper()
	var mu sync.Mutex
	seen := make(map[string]int)
	r := &run{workload: w, handle: func(payload []byte) {
		mu.Lock()
		defer mu.Unlock()
		seen[canonical(payload)]++
	}}
	result, err := measure(t.Context(), subject, r, true)
	if err != nil {
		t.Fatal(err)
	}
	if result.Events != w.Events || result.Partial {
		t.Errorf("cycle: got %+v, want %d events", result, w.Events)
	}
	for i := range w.Events {
		if n := seen[canonical(makePayload(i))]; n != 1 {
			t.Fatalf("event %d was handled %d times, want once", i, n)
		}
	}
	if len(seen) != w.Events {
		t.Errorf("%d payloads handled, want %d", len(seen), w.Events)
	}
}

// testedSubjects are all, or in short mode those without a server.
func testedSubjects(tb testing.TB) []Subject {
	tb.Helper()
	subjects := append(Subjects(), SQLiteSubjects()...)
	if testing.Short() {
		return subjects
	}
	at := func(url string) Server { return func(context.Context) (string, error) { return url, nil } }
	subjects = append(subjects, PostgresSubjects(at(testservers.Postgres(tb).URL("postgres")))...)
	return append(subjects, RedisSubjects(at(testservers.Redis(tb).URL()))...)
}

func TestBacklogAndHistory(t *testing.T) {
	w := Workload{Events: 500, Batch: 100, Callers: 2, Timeout: 30 * time.Second, Backlog: true, History: 700}
	for _, subject := range []Subject{Memory(), Bbolt{}, SQLiteLog{Driver: Mattn}} {
		result, err := MeasureCycle(t.Context(), subject, w)
		if err != nil || result.Events != w.Events {
			t.Errorf("%s: got %+v, %v; want %d events", subject.Name(), result, err, w.Events)
		}
	}
}

func TestLatency(t *testing.T) {
	subjects := []Subject{Memory(), SQLite{Driver: Mattn}}
	if !testing.Short() {
		subjects = testedSubjects(t)
	}
	for _, subject := range subjects {
		got, err := MeasureLatency(t.Context(), subject, Pace{PerSecond: 200, Events: 20})
		if err != nil || got.P50 <= 0 || got.P50 > got.P99 || got.P99 > got.Max {
			t.Errorf("%s: got %+v, %v", subject.Name(), got, err)
		}
	}
	for _, p := range []Pace{{PerSecond: 0, Events: 1}, {PerSecond: 1, Events: 0}, {PerSecond: 1, Events: distinctPayloads + 1}} {
		if _, err := MeasureLatency(t.Context(), Memory(), p); err == nil {
			t.Errorf("%+v: accepted", p)
		}
	}
}

func TestSubjectNamesAreUnique(t *testing.T) {
	names := make(map[string]bool)
	for _, subject := range slices.Concat(Subjects(), SQLiteSubjects(), PostgresSubjects(nil), RedisSubjects(nil)) {
		if names[subject.Name()] {
			t.Errorf("%q is registered twice", subject.Name())
		}
		names[subject.Name()] = true
	}
}

// fake appends as it is told, and has nothing to consume.
type fake struct {
	append func(context.Context) error
}

func (fake) Name() string                                    { return "fake" }
func (fake) Confirms() string                                { return "nothing" }
func (f fake) Open(context.Context, string) (Session, error) { return f, nil }
func (f fake) Append(ctx context.Context, _ []Event) error   { return f.append(ctx) }
func (fake) Subscribe(context.Context) error                 { return nil }
func (fake) Flush(context.Context) error                     { return nil }
func (fake) Close() error                                    { return nil }

func (fake) Consume(ctx context.Context, _ int, _ func([]byte)) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestTimeIsBounded(t *testing.T) {
	w := Workload{Events: 100, Batch: 10, Callers: 2, Timeout: 20 * time.Millisecond}
	calls := make(chan struct{}, 3) // as many as get through
	subject := fake{append: func(ctx context.Context) error {
		select {
		case calls <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	result, err := MeasureAppend(t.Context(), subject, w)
	if err != nil || result.Events != 30 || !result.Partial {
		t.Errorf("got %+v, %v; want 30 events, partial", result, err)
	}
	if _, err := MeasureCycle(t.Context(), subject, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cycle with nothing consumed: got %v, want the deadline", err)
	}
}

func TestFirstErrorEndsTheRun(t *testing.T) {
	broken := errors.New("disk on fire")
	subject := fake{append: func(context.Context) error { return broken }}
	w := Workload{Events: 100, Batch: 10, Callers: 2, Timeout: time.Hour}
	if _, err := MeasureAppend(t.Context(), subject, w); !errors.Is(err, broken) {
		t.Errorf("append: got %v, want %v", err, broken)
	}
	if _, err := MeasureCycle(t.Context(), subject, w); !errors.Is(err, broken) {
		t.Errorf("cycle: got %v, want %v", err, broken)
	}
}

func TestWorkloadIsChecked(t *testing.T) {
	good := Workload{Events: 1, Batch: 1, Callers: 1, Timeout: time.Second}
	for name, spoil := range map[string]func(*Workload){
		"no events":   func(w *Workload) { w.Events = 0 },
		"many events": func(w *Workload) { w.Events = maxEvents + 1 },
		"no batch":    func(w *Workload) { w.Batch = 0 },
		"no callers":  func(w *Workload) { w.Callers = 0 },
		"no time":     func(w *Workload) { w.Timeout = 0 },
	} {
		w := good
		spoil(&w)
		if _, err := MeasureAppend(t.Context(), fake{}, w); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEvents(t *testing.T) {
	events := makeEvents(distinctPayloads + 10)
	for i, e := range events {
		if len(e.ID) != 36 || e.ID[14] != '7' || e.ID[19] < '8' || e.ID[19] > 'b' {
			t.Fatalf("event %d: %q is no UUIDv7", i, e.ID)
		}
		if i > 0 && e.ID <= events[i-1].ID {
			t.Fatalf("event %d: %q does not sort after %q", i, e.ID, events[i-1].ID)
		}
		if len(e.Payload) != PayloadSize {
			t.Fatalf("event %d: payload of %d bytes", i, len(e.Payload))
		}
		payload, err := recordPayload(e.AppendRecord(nil))
		if err != nil || string(payload) != string(e.Payload) {
			t.Fatalf("event %d: record gives %q, %v", i, payload, err)
		}
	}
	record := events[0].AppendRecord(nil)
	for n := range len(record) - PayloadSize {
		if _, err := recordPayload(record[:n]); err == nil {
			t.Fatalf("a record cut to %d bytes was accepted", n)
		}
	}
}
