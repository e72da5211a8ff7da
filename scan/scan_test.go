package scan_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/scan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partition is a source of one partition. It yields the same event each time,
// changed, as a source may.
type partition struct {
	high    int64
	located map[string]int64 // nil: no index
	failAt  int64
	walked  int
}

func (p *partition) High(context.Context, int) (int64, error) { return p.high, nil }

func (p *partition) Locate(_ context.Context, _ int, id string) (int64, bool, error) {
	return p.located[id], p.located != nil, nil
}

var errBroken = errors.New("broken")

func (p *partition) Walk(_ context.Context, _ int, first, last int64, descending bool) iter.Seq2[*rheo.Event, error] {
	return func(yield func(*rheo.Event, error) bool) {
		var e rheo.Event
		for offset := range last - first + 1 {
			sequence := first + offset
			if descending {
				sequence = last - offset
			}
			p.walked++
			if sequence == p.failAt {
				yield(nil, errBroken)
				return
			}
			e = rheo.Event{
				ID: fmt.Sprint("e", sequence), Sequence: sequence,
				Timestamp: time.Unix(1000-sequence, 0), Payload: []byte("null"),
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

func request(limit int, change func(*rheo.Filter)) rheo.QueryRequest {
	f := rheo.Filter{Partitions: []int{0}, Until: 1 << 40}
	if change != nil {
		change(&f)
	}
	return rheo.QueryRequest{Stream: "s", Filter: f, Limit: limit}
}

func sequences(page rheo.Page) (got []int64) {
	for _, e := range page.Events {
		got = append(got, e.Sequence)
	}
	return got
}

func TestPagesOfASourceWithoutIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*rheo.Filter)
		want   string
	}{
		"ascending":    {nil, "[1 2 3] [4 5 6] [7]"},
		"descending":   {func(f *rheo.Filter) { f.Descending = true }, "[7 6 5] [4 3 2] [1]"},
		"by timestamp": {func(f *rheo.Filter) { f.OrderBy = rheo.ByTimestamp }, "[7 6 5] [4 3 2] [1]"},
		"from the end in time": {
			func(f *rheo.Filter) { f.OrderBy, f.Descending = rheo.ByTimestamp, true },
			"[1 2 3] [4 5 6] [7]",
		},
		"bounded": {func(f *rheo.Filter) { f.After, f.Until = 2, 4 }, "[3 4]"},
		"by ID": {func(f *rheo.Filter) {
			f.Predicates = []rheo.Predicate{{Field: rheo.FieldID, Op: rheo.OpIn, Values: []any{"e5", "e2", "e9"}}}
		}, "[2 5]"},
	} {
		src, r, got := &partition{high: 7}, request(3, c.change), ""
		for more := true; more; {
			page, err := scan.Page(t.Context(), src, r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(page.Events) > 0 {
				got += fmt.Sprint(" ", sequences(page))
			}
			r.Cursor, more = page.Next, page.More
		}
		if got != " "+c.want {
			t.Errorf("%s: got%s, want %s", name, got, c.want)
		}
	}
}

func TestAnIndexSparesTheWalk(t *testing.T) {
	t.Parallel()
	src := &partition{high: 1_000_000, located: map[string]int64{"e5": 5, "e900000": 900_000}}
	page, err := scan.Page(t.Context(), src, request(10, func(f *rheo.Filter) {
		f.Predicates = []rheo.Predicate{{Field: rheo.FieldID, Op: rheo.OpIn, Values: []any{"e900000", "e5", "none"}}}
	}))
	if err != nil || fmt.Sprint(sequences(page)) != "[5 900000]" || src.walked != 2 {
		t.Errorf("%v, %v, %d events walked", sequences(page), err, src.walked)
	}
}

func TestErrorsAndEndedContexts(t *testing.T) {
	t.Parallel()
	if _, err := scan.Page(t.Context(), &partition{high: 7, failAt: 5}, request(10, nil)); !errors.Is(err, errBroken) {
		t.Errorf("a source that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nothing := request(10, func(f *rheo.Filter) {
		f.Predicates = []rheo.Predicate{{Field: rheo.FieldKey, Op: rheo.OpEq, Values: []any{"none"}}}
	})
	if _, err := scan.Page(ctx, &partition{high: 100_000}, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}
