package backendtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// The naive evaluation of a query: one event at a time, over decoded JSON. It
// shares no code with rheo.Filter, which backends may use.

// wildPath is a condition's path together with what it means.
type wildPath struct {
	path   string
	lookup func(*rheo.Event) (any, bool)
}

func payloadPath(path string, segments ...string) wildPath {
	return wildPath{path, func(e *rheo.Event) (any, bool) {
		v, err := decode(e.Payload)
		if err != nil {
			return nil, false
		}
		for _, segment := range segments {
			switch node := v.(type) {
			case map[string]any:
				w, there := node[segment]
				if !there {
					return nil, false
				}
				v = w
			case []any:
				i, err := strconv.Atoi(segment)
				if err != nil || i < 0 || i >= len(node) {
					return nil, false
				}
				v = node[i]
			default:
				return nil, false
			}
		}
		return v, true
	}}
}

func field(path string, get func(*rheo.Event) any) wildPath {
	return wildPath{path, func(e *rheo.Event) (any, bool) { return get(e), true }}
}

var wildPaths = []wildPath{
	payloadPath("a", "a"), payloadPath("payload.a", "a"), payloadPath("a.a", "a", "a"), payloadPath("b.0", "b", "0"),
	payloadPath("b.a", "b", "a"), payloadPath(`c\.c`, "c.c"), payloadPath(`b.c\.c`, "b", "c.c"), payloadPath("payload"),
	field("id", func(e *rheo.Event) any { return e.ID }),
	field("partition", func(e *rheo.Event) any { return json.Number(fmt.Sprint(e.Partition)) }),
	field("sequence", func(e *rheo.Event) any { return json.Number(fmt.Sprint(e.Sequence)) }),
	{"metadata.m", func(e *rheo.Event) (any, bool) { v, there := e.Metadata["m"]; return v, there }},
}

// orderOf compares two values of one type that has an order.
func orderOf(a, b any) (int, bool) {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return 0, false
		}
		return compareExactly(a, b), true
	}
	return 0, false
}

// sameScalar is equality with a scalar, which no object or array has.
func sameScalar(v, scalar any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return same(v, scalar)
}

func (p wildPath) meets(e *rheo.Event, op rheo.Op, value any) bool {
	v, there := p.lookup(e)
	switch op {
	case rheo.OpExists:
		return there
	case rheo.OpEq:
		return there && sameScalar(v, value)
	case rheo.OpNe:
		return !there || !sameScalar(v, value)
	case rheo.OpIn:
		return there && slices.ContainsFunc(value.([]any), func(w any) bool { return sameScalar(v, w) })
	}
	order, ordered := orderOf(v, value)
	return there && ordered && map[rheo.Op]bool{
		rheo.OpGt: order > 0, rheo.OpGe: order >= 0, rheo.OpLt: order < 0, rheo.OpLe: order <= 0,
	}[op]
}

// A wildQuery is a random query and its meaning.
type wildQuery struct {
	query rheo.Query
	meets []func(*rheo.Event) bool
}

var wildOps = []rheo.Op{rheo.OpEq, rheo.OpEq, rheo.OpNe, rheo.OpGt, rheo.OpGe, rheo.OpLt, rheo.OpLe, rheo.OpIn, rheo.OpExists}

func wildScalar(rng *rand.Rand, ordered bool) any {
	kinds := 4
	if ordered {
		kinds = 2
	}
	switch rng.IntN(kinds) {
	case 0:
		return json.Number([]string{"0", "1", "1.0", "2", "-1", "0.5", "10", "9007199254740993"}[rng.IntN(8)])
	case 1:
		return []string{"", "1", "a", "b", "B", "0-5", "é"}[rng.IntN(7)]
	case 2:
		return rng.IntN(2) == 0
	default:
		return nil
	}
}

func (w *wildQuery) condition(rng *rand.Rand) {
	path, op := wildPaths[rng.IntN(len(wildPaths))], wildOps[rng.IntN(len(wildOps))]
	var value any
	switch op {
	case rheo.OpExists:
	case rheo.OpIn:
		list := make([]any, rng.IntN(4))
		for i := range list {
			list[i] = wildScalar(rng, false)
		}
		value = list
	default:
		value = wildScalar(rng, op != rheo.OpEq && op != rheo.OpNe)
	}
	w.query.Where = append(w.query.Where, rheo.Where(path.path, op, value))
	w.meets = append(w.meets, func(e *rheo.Event) bool { return path.meets(e, op, value) })
}

func newWildQuery(rng *rand.Rand, partitions, high int, start time.Time) *wildQuery {
	w := &wildQuery{}
	for range rng.IntN(3) {
		w.condition(rng)
	}
	q := &w.query
	if rng.IntN(3) == 0 {
		q.Partitions = rng.Perm(partitions)[:1+rng.IntN(partitions)]
	}
	if rng.IntN(3) == 0 {
		q.After = int64(rng.IntN(high))
	}
	if rng.IntN(3) == 0 {
		q.Until = q.After + int64(rng.IntN(high)) + 1
	}
	if rng.IntN(4) == 0 {
		q.From = start.Add(time.Duration(rng.IntN(50)) * time.Second)
	}
	if rng.IntN(4) == 0 {
		q.To = start.Add(time.Duration(rng.IntN(50)) * time.Second)
	}
	q.OrderBy, q.Descending, q.Limit = rheo.OrderBy(rng.IntN(2)), rng.IntN(2) == 0, rng.IntN(2)*rng.IntN(60)
	return w
}

// find evaluates the query over all events, which come in the order of the log.
func (w *wildQuery) find(all []rheo.Event) []string {
	q := w.query
	var found []rheo.Event
	for _, e := range all {
		in := (len(q.Partitions) == 0 || slices.Contains(q.Partitions, e.Partition)) &&
			e.Sequence > q.After && (q.Until == 0 || e.Sequence <= q.Until) &&
			(q.From.IsZero() || !e.Timestamp.Before(q.From)) && (q.To.IsZero() || e.Timestamp.Before(q.To))
		for _, meets := range w.meets {
			in = in && meets(&e)
		}
		if in {
			found = append(found, e)
		}
	}
	if q.OrderBy == rheo.ByTimestamp {
		slices.SortStableFunc(found, func(a, b rheo.Event) int { return a.Timestamp.Compare(b.Timestamp) })
	}
	if q.Descending {
		slices.Reverse(found)
	}
	if q.Limit > 0 {
		found = found[:min(q.Limit, len(found))]
	}
	return eventIDs(found)
}

func wildPayload(rng *rand.Rand, depth int) any {
	if depth > 1 || rng.IntN(3) > 0 {
		return wildScalar(rng, false)
	}
	if rng.IntN(3) == 0 {
		return []any{wildPayload(rng, depth+1), wildPayload(rng, depth+1)}
	}
	object := make(map[string]any)
	for _, k := range []string{"a", "b", "c.c", "c"} {
		if rng.IntN(3) > 0 {
			object[k] = wildPayload(rng, depth+1)
		}
	}
	return object
}

func randomQueries(s *subject) {
	rng := s.random()
	partitions, high := 3, 40
	if !s.backend.Capabilities().Guarantees.Partitions {
		partitions = 1
	}
	s.create(partitions)
	start := s.clock.Now()
	var all []rheo.Event
	for p := range partitions {
		for sequence := range high {
			e := on(p, name(p, int64(sequence+1)))[0]
			object := map[string]any{"a": wildPayload(rng, 0), "b": wildPayload(rng, 0), "c.c": wildScalar(rng, false)}
			raw, err := json.Marshal(object)
			s.noError(err)
			e.Payload, e.Timestamp = raw, start.Add(time.Duration(rng.IntN(50))*time.Second)
			if v, ok := wildScalar(rng, true).(string); ok {
				e.Metadata = map[string]string{"m": v}
			}
			all = append(all, s.append(e)[0].Event)
		}
	}
	s.compareQueries(rng, all, partitions, high, start)
}

func (s *subject) compareQueries(rng *rand.Rand, all []rheo.Event, partitions, high int, start time.Time) {
	s.Helper()
	const most, enough = 400, 100 // queries, and what they have to find in all
	hits := 0
	ordered := s.backend.Capabilities().Guarantees.OrderedScan
	for n := 0; n < s.scaled(most) || hits < enough && n < most; n++ {
		w := newWildQuery(rng, partitions, high, start)
		if !ordered {
			w.query.Limit = 0
		}
		want := w.find(all)
		if !ordered {
			slices.Sort(want)
		}
		equalList(s, fmt.Sprintf("%+v", w.query), s.query(w.query), want)
		hits += len(want)
	}
	if hits < enough {
		s.Fatalf("the queries found only %d events in all: they show nothing", hits)
	}
}
