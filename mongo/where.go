package mongo

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rheo-go/rheo"
)

// narrow is what a filter says about whole commit documents: every document with
// an event that matches meets it. Others may, too.
func narrow(f *rheo.Filter, indexed bool) (d bson.D) {
	if !f.From.IsZero() {
		d = append(d, bson.E{Key: "newest", Value: bson.D{{Key: "$gte", Value: microsecondsFrom(f.From)}}})
	}
	if !f.To.IsZero() {
		d = append(d, bson.E{Key: "oldest", Value: bson.D{{Key: "$lt", Value: microsecondsFrom(f.To)}}})
	}
	var all bson.A
	for i := range f.Predicates {
		if c := narrowBy(&f.Predicates[i], indexed); c != nil {
			all = append(all, c)
		}
	}
	if len(all) > 0 {
		d = append(d, bson.E{Key: "$and", Value: all})
	}
	return d
}

// narrowBy returns nil where there is nothing to say.
func narrowBy(p *rheo.Predicate, indexed bool) bson.D {
	equality := p.Op == rheo.OpEq || p.Op == rheo.OpIn
	switch p.Field {
	case rheo.FieldID:
		if equality {
			return among("ids", p.Values)
		}
	case rheo.FieldType:
		if equality {
			return among("events.type", p.Values)
		}
	case rheo.FieldKey:
		if equality {
			return among("events.key", p.Values)
		}
	case rheo.FieldTimestamp:
		return narrowByTime(p)
	case rheo.FieldMetadata, rheo.FieldPayload:
		if equality && indexed {
			return bson.D{{Key: "terms", Value: bson.D{{Key: "$in", Value: alternatives(lookupTerms(p))}}}}
		}
	default:
	}
	return nil
}

// alternatives are the terms, and nil for documents that have none: there was nothing
// to index, or no index yet.
func alternatives(terms []int64) bson.A {
	values := bson.A{nil}
	for _, t := range terms {
		values = append(values, t)
	}
	return values
}

// among selects by the strings among the values; nothing else equals one. Empty
// types and keys are not stored, and so cannot be looked up.
func among(field string, values []any) bson.D {
	texts := bson.A{}
	for _, v := range values {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	if slices.Contains(texts, any("")) {
		return nil
	}
	return bson.D{{Key: field, Value: bson.D{{Key: "$in", Value: texts}}}}
}

func narrowByTime(p *rheo.Predicate) bson.D {
	if p.Op != rheo.OpEq && p.Op != rheo.OpGt && p.Op != rheo.OpGe && p.Op != rheo.OpLt && p.Op != rheo.OpLe {
		return nil
	}
	at, ok := p.Values[0].(time.Time)
	if !ok {
		return nil
	}
	var d bson.D
	if p.Op != rheo.OpLt && p.Op != rheo.OpLe {
		d = append(d, bson.E{Key: "newest", Value: bson.D{{Key: "$gte", Value: microsecondsFrom(at)}}})
	}
	if p.Op != rheo.OpGt && p.Op != rheo.OpGe {
		d = append(d, bson.E{Key: "oldest", Value: bson.D{{Key: "$lte", Value: microsecondsFrom(at)}}})
	}
	return d
}
