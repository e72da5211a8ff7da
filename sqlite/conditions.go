package sqlite

import (
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// conditions narrow a statement down to what a filter may select. They need not
// be all of the filter, since Filter.Match has the last word, but must hold for
// all that it selects.
type conditions struct {
	sql  strings.Builder
	args []any
}

func (c *conditions) add(sql string, args ...any) {
	c.sql.WriteString(" AND ")
	c.sql.WriteString(sql)
	c.args = append(c.args, args...)
}

// conditionsOf translates the time bounds, and the predicates on columns that
// SQLite compares as Match does: by bytes or as integers. Metadata and payload are
// left to Match: SQLite's JSON functions take numbers for doubles.
func conditionsOf(f *rheo.Filter) *conditions {
	c := &conditions{}
	if !f.From.IsZero() {
		c.add("timestamp >= ?", ceilMicro(f.From))
	}
	if !f.To.IsZero() {
		c.add("timestamp < ?", ceilMicro(f.To))
	}
	for i := range f.Predicates {
		p := &f.Predicates[i]
		switch p.Field {
		case rheo.FieldID:
			c.text("id", p)
		case rheo.FieldType:
			c.text("type", p)
		case rheo.FieldKey:
			c.text("key", p)
		case rheo.FieldTimestamp:
			c.time(p)
		}
	}
	return c
}

// text adds a predicate on a column of text. Values of other types equal nothing.
func (c *conditions) text(column string, p *rheo.Predicate) {
	var values []any
	for _, v := range p.Values {
		if s, ok := v.(string); ok {
			values = append(values, s)
		}
	}
	const mostValues = 500 // older versions of SQLite take 999 parameters
	switch {
	case p.Op == rheo.OpExists:
		if column != "id" {
			c.add(column + " <> ''")
		}
	case p.Op == rheo.OpEq || p.Op == rheo.OpIn:
		if len(values) <= mostValues {
			c.add(column+" IN ("+marks(len(values))+")", values...)
		}
	case len(values) == 0:
	case p.Op == rheo.OpNe:
		c.add(column+" <> ?", values...)
	default:
		c.add(column+" "+string(p.Op)+" ?", values...)
	}
}

func marks(n int) string {
	if n == 0 {
		return ""
	}
	return strings.Repeat("?, ", n-1) + "?"
}

// time adds an order predicate on the timestamp, which is whole microseconds where
// the value need not be.
func (c *conditions) time(p *rheo.Predicate) {
	if len(p.Values) != 1 {
		return
	}
	t, ok := p.Values[0].(time.Time)
	if !ok {
		return
	}
	switch p.Op {
	case rheo.OpGt:
		c.add("timestamp > ?", t.UnixMicro())
	case rheo.OpGe:
		c.add("timestamp >= ?", ceilMicro(t))
	case rheo.OpLt:
		c.add("timestamp < ?", ceilMicro(t))
	case rheo.OpLe:
		c.add("timestamp <= ?", t.UnixMicro())
	case rheo.OpEq:
		c.add("timestamp BETWEEN ? AND ?", t.UnixMicro(), ceilMicro(t))
	}
}
