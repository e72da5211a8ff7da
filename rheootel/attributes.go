package rheootel

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rheo-go/rheo"
)

// The attributes of metrics.
const (
	streamKey    = attribute.Key("rheo.stream")
	groupKey     = attribute.Key("rheo.group")
	operationKey = attribute.Key("rheo.operation")
	outcomeKey   = attribute.Key("rheo.outcome")
	reasonKey    = attribute.Key("rheo.reason")
)

// labels are the values of the attributes; "" leaves one out.
type labels struct {
	stream, group string
	operation     rheo.Operation
	outcome       string
	reason        string
}

// labelled are the options with which a measurement is given its labels.
type labelled struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

// with returns the options for labels, which are made once.
func (o *Observer) with(l labels) *labelled {
	return o.labelled.get(l, o.label)
}

func (o *Observer) label(l labels) *labelled {
	attributes := append(make([]attribute.KeyValue, 0, len(o.constant)+5), o.constant...)
	for _, a := range []attribute.KeyValue{
		streamKey.String(l.stream), groupKey.String(l.group), operationKey.String(string(l.operation)),
		outcomeKey.String(l.outcome), reasonKey.String(l.reason),
	} {
		if a.Value.AsString() != "" {
			attributes = append(attributes, a)
		}
	}
	option := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return &labelled{
		add:     []metric.AddOption{option},
		record:  []metric.RecordOption{option},
		observe: []metric.ObserveOption{option},
	}
}

// labelsOf leaves out names of what does not exist: a caller may ask for any.
func labelsOf(end *rheo.OperationEnd) labels {
	l := labels{stream: end.Stream, group: end.Group, operation: end.Operation, reason: string(end.Reason)}
	switch end.Reason {
	case rheo.ReasonStreamNotFound, rheo.ReasonInvalid:
		l.stream, l.group = "", ""
	case rheo.ReasonGroupNotFound:
		l.group = ""
	}
	return l
}

// cache keeps what is made of a key. Its keys come from a bounded set.
type cache[K comparable, V any] struct {
	mu   sync.RWMutex
	made map[K]V
}

func (c *cache[K, V]) get(key K, of func(K) V) V {
	c.mu.RLock()
	v, ok := c.made[key]
	c.mu.RUnlock()
	if ok {
		return v
	}
	return c.add(key, of(key))
}

// add returns what is kept: another may have been first.
func (c *cache[K, V]) add(key K, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.made[key]; ok {
		return kept
	}
	if c.made == nil {
		c.made = make(map[K]V)
	}
	c.made[key] = v
	return v
}
