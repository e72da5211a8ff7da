package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

// write is one statement's worth of events on their way into the log.
type write struct {
	slots      []*slot
	rows       *columns
	place      []int64         // of each row within its partition's share, from 1
	partitions []int32         // ascending
	counts     []int64         // how many rows each has
	expected   []int64         // the high watermark each must have, or -1
	bases      map[int32]int64 // the answer: the high watermarks before
}

func newWrite(slots []*slot, expected rheo.ExpectedSequence) *write {
	w := &write{slots: slots, place: make([]int64, len(slots)), bases: make(map[int32]int64)}
	if len(slots) > 0 && slots[0].call.rows.len() == len(slots) && slots[len(slots)-1].call == slots[0].call {
		w.rows = slots[0].call.rows // all of one call, as it is
	} else {
		w.rows = newColumns(len(slots))
		for _, s := range slots {
			w.rows.take(s.call.rows, s.row)
		}
	}
	counts := make(map[int32]int64)
	for i, s := range slots {
		p := s.partition()
		counts[p]++
		if counts[p] == 1 {
			w.partitions = append(w.partitions, p)
		}
		w.place[i] = counts[p]
	}
	slices.Sort(w.partitions)
	for _, p := range w.partitions {
		w.counts = append(w.counts, counts[p])
		if want, ok := expected[int(p)]; ok {
			w.expected = append(w.expected, want)
		} else {
			w.expected = append(w.expected, -1)
		}
	}
	return w
}

// queue asks for it. Where several partitions are touched, they are locked in
// ascending order first, as everybody does: then nobody waits in a circle.
func (w *write) queue(b *Backend, s *stream, batch *pgx.Batch) {
	clear(w.bases)
	if len(w.partitions) == 1 {
		arguments := append([]any{s.id, w.partitions[0], w.counts[0], w.expected[0]}, w.rows.onePartition()...)
		batch.Queue(b.text(appendOne), arguments...).Query(intoMap(w.bases))
		return
	}
	batch.Queue(b.text(appendLock), s.id, w.partitions)
	arguments := append([]any{s.id, w.partitions, w.counts, w.expected}, w.rows.arguments()...)
	batch.Queue(b.text(appendEvents), append(arguments, w.place)...).Query(intoMap(w.bases))
}

// number gives the slots their sequences, once it is done.
func (w *write) number(stream *stream) {
	for i, p := range w.partitions {
		stream.raise(int(p), w.bases[p]+w.counts[i])
	}
	for i, s := range w.slots {
		s.sequence = w.bases[s.partition()] + w.place[i]
	}
}
