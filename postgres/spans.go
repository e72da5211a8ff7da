package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

var (
	readSpan = load("read_span")
	readEach = load("read_each")
)

// queueEvents asks for the events that were claimed, in order.
func (b *Backend) queueEvents(batch *pgx.Batch, s *stream, t *take) {
	n := 0
	for _, span := range t.spans {
		n += span.Len()
	}
	into := func(rows pgx.Rows) error {
		t.events = make([]rheo.Event, 0, n)
		return eachEvent(rows, s.name, func(e rheo.Event) { t.events = append(t.events, e) })
	}
	const fewSpans = 4 // up to which each is a statement of its own
	if len(t.spans) > fewSpans {
		sequences := make([]int64, 0, n)
		for _, span := range t.spans {
			for n := span.From; n <= span.To; n++ {
				sequences = append(sequences, n)
			}
		}
		batch.Queue(b.text(readEach), s.id, t.partition, sequences).Query(into)
		return
	}
	for i, span := range t.spans {
		first := i == 0
		batch.Queue(b.text(readSpan), s.id, t.partition, span.From, span.To).Query(func(rows pgx.Rows) error {
			if first {
				return into(rows)
			}
			return eachEvent(rows, s.name, func(e rheo.Event) { t.events = append(t.events, e) })
		})
	}
}
