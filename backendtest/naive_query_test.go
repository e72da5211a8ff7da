package backendtest_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

func (b *naive) Query(_ context.Context, r rheo.QueryRequest) (rheo.Page, error) {
	s, _, err := b.locked(r.Stream, "")
	if err != nil {
		return rheo.Page{}, err
	}
	defer b.mu.Unlock()
	f := b.filter(r.Filter)
	var found []rheo.Event
	for p := range s.log {
		for i := range s.log[p] {
			if e := &s.log[p][i]; f.Match(e) && b.behind(r, e) {
				found = append(found, b.copied(e))
			}
		}
	}
	if r.Filter.OrderBy == rheo.ByTimestamp {
		slices.SortStableFunc(found, func(x, y rheo.Event) int {
			if b.has("times as text") {
				return strings.Compare(x.Timestamp.Format(time.RFC1123), y.Timestamp.Format(time.RFC1123))
			}
			return x.Timestamp.Compare(y.Timestamp)
		})
	}
	if r.Filter.Descending && !b.has("always ascending") {
		slices.Reverse(found)
	}
	page := rheo.Page{Next: rheo.Cursor{After: maps.Clone(r.Cursor.After), Last: r.Cursor.Last}}
	if r.Limit > 0 && len(found) > r.Limit && !b.has("limit ignored") {
		found, page.More = found[:r.Limit], true
	}
	if b.has("descending never ends") && r.Filter.Descending && len(found) > 0 {
		page.More, found = true, found[:len(found)-1]
	}
	page.Events = found
	for i := range found {
		b.advance(&page.Next, r.Filter.OrderBy, &found[i])
	}
	if b.has("more says no") {
		page.More = false
	}
	if b.has("finished cursor is lost") && !page.More {
		page.Next = rheo.Cursor{}
	}
	return page, nil
}

func (b *naive) advance(c *rheo.Cursor, order rheo.OrderBy, e *rheo.Event) {
	if order == rheo.ByTimestamp {
		at := rheo.PositionOf(e)
		c.Last = &at
		return
	}
	if c.After == nil {
		c.After = make(map[int]int64)
	}
	c.After[e.Partition] = e.Sequence
}

// behind reports whether an event comes behind the request's cursor.
func (b *naive) behind(r rheo.QueryRequest, e *rheo.Event) bool {
	if r.Filter.OrderBy == rheo.ByTimestamp {
		if r.Cursor.Last == nil {
			return true
		}
		order := rheo.PositionOf(e).Compare(*r.Cursor.Last)
		if b.has("cursor without ties") {
			order = e.Timestamp.Compare(r.Cursor.Last.Timestamp)
		}
		return order > 0 && !r.Filter.Descending || order < 0 && r.Filter.Descending
	}
	after, there := r.Cursor.After[e.Partition]
	if b.has("one partition's cursor for all") {
		for _, other := range r.Cursor.After {
			after, there = max(after, other), true
		}
	}
	return !there || e.Sequence > after && !r.Filter.Descending || e.Sequence < after && r.Filter.Descending
}

// filter is the request's, or what a bug makes of it.
func (b *naive) filter(f rheo.Filter) *rheo.Filter {
	f.Predicates = slices.Clone(f.Predicates)
	switch b.bug {
	case "from is exclusive":
		if !f.From.IsZero() {
			f.From = f.From.Add(1)
		}
	case "to is inclusive":
		if !f.To.IsZero() {
			f.To = f.To.Add(1)
		}
	case "until is exclusive":
		f.Until--
	case "after bound ignored":
		f.After = 0
	case "partitions ignored":
		for p := range 1024 {
			f.Partitions = append(f.Partitions, p)
		}
	case "first condition only":
		f.Predicates = f.Predicates[:min(1, len(f.Predicates))]
	}
	for i := range f.Predicates {
		b.bend(&f.Predicates[i])
	}
	return &f
}

// bend makes of a predicate what a bug does.
func (b *naive) bend(p *rheo.Predicate) {
	for at, v := range p.Values {
		number, isNumber := v.(json.Number)
		switch {
		case b.has("numbers as floats") && isNumber:
			f, _ := number.Float64()
			raw, _ := json.Marshal(f)
			p.Values = slices.Clone(p.Values)
			p.Values[at] = json.Number(raw)
		case b.has("numbers as text") && isNumber && p.Op == rheo.OpEq:
			p.Op, p.Values = rheo.OpIn, []any{number, number.String()}
		case b.has("null is missing") && v == nil && p.Op == rheo.OpEq:
			p.Op, p.Values = rheo.OpNe, []any{"some text that is nowhere"}
		}
	}
	switch {
	case b.has("ne needs the field") && p.Op == rheo.OpNe && p.Field == rheo.FieldPayload:
		p.Op, p.Values = rheo.OpExists, nil
	case b.has("empty in is all") && p.Op == rheo.OpIn && len(p.Values) == 0:
		p.Op = rheo.OpExists
	case b.has("paths by dots") && len(p.Path) > 0:
		p.Path = strings.Split(strings.Join(p.Path, "."), ".")
		if p.Field == rheo.FieldMetadata {
			p.Path = p.Path[:1]
		}
	case b.has("ge is gt") && p.Op == rheo.OpGe:
		p.Op = rheo.OpGt
	case b.has("metadata by payload") && p.Field == rheo.FieldMetadata:
		p.Field, p.Path = rheo.FieldPayload, []string{"metadata", p.Path[0]}
	case b.has("keys with quotes") && p.Field == rheo.FieldKey && len(p.Values) > 0:
		if text, ok := p.Values[0].(string); ok {
			p.Values = []any{strings.ReplaceAll(text, "'", "''")}
		}
	}
}
