package ledger

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// chunkRuns bounds the runs in a chunk: few enough that rewriting one costs
// less than a microsecond, and enough that a long list has few chunks to skip.
const chunkRuns = 64

// A chunk is a stretch of the run list, never empty, with a summary.
type chunk struct {
	runs []Run
	due  int64 // the least At: before it, nothing here is due
	busy int64 // the greatest At of a lease: from then on, nothing here is in flight
}

func newChunk(runs []Run) chunk {
	c := chunk{runs: runs}
	c.summarize()
	return c
}

func (c *chunk) summarize() {
	c.due, c.busy = math.MaxInt64, math.MinInt64
	for i := range c.runs {
		c.note(&c.runs[i])
	}
}

// note takes run into the summary.
func (c *chunk) note(run *Run) {
	c.due = min(c.due, run.At)
	if run.State == Leased {
		c.busy = max(c.busy, run.At)
	}
}

func (c *chunk) last() *Run { return &c.runs[len(c.runs)-1] }

// find returns the index of the first run that ends at sequence or after.
func (c *chunk) find(sequence int64) int {
	return sort.Search(len(c.runs), func(i int) bool { return c.runs[i].To >= sequence })
}

// A runList holds the runs of a ledger, ascending and merged, in chunks.
type runList struct {
	chunks  []chunk
	n       int   // runs in all chunks
	due     int64 // a lower bound of every chunk's due; may lag behind, never ahead
	scratch []Run // an editor's output, kept between edits
	spare   []Run // the buffer of a removed chunk, kept for the next
	work    int   // runs and summaries looked at or moved: the tests bound it
}

func (r *runList) all() iter.Seq[*Run] {
	return func(yield func(*Run) bool) {
		for _, c := range r.chunks {
			for i := range c.runs {
				if !yield(&c.runs[i]) {
					return
				}
			}
		}
	}
}

func (r *runList) first() *Run {
	if len(r.chunks) == 0 {
		return nil
	}
	return &r.chunks[0].runs[0]
}

func (r *runList) clone() runList {
	chunks := slices.Clone(r.chunks)
	for i := range chunks {
		chunks[i].runs = slices.Clone(chunks[i].runs)
	}
	return runList{chunks: chunks, n: r.n, due: r.due}
}

// search returns the index of the first chunk that ends at sequence or after.
func (r *runList) search(sequence int64) int {
	return sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].last().To >= sequence })
}

// nextDue returns the index of the first chunk, from i on, in which something
// is due, or the number of chunks.
func (r *runList) nextDue(i int, now int64) int {
	for ; i < len(r.chunks) && r.chunks[i].due > now; i++ {
		r.work++
	}
	return i
}

// tightenDue makes the lower bound exact.
func (r *runList) tightenDue() {
	r.due = math.MaxInt64
	for i := range r.chunks {
		r.due = min(r.due, r.chunks[i].due)
	}
	r.work += len(r.chunks)
}

// busy reports whether any lease is unexpired.
func (r *runList) busy(now int64) bool {
	return slices.ContainsFunc(r.chunks, func(c chunk) bool { return c.busy > now })
}

// push adds a run that comes after all others, merging it with the last.
func (r *runList) push(run *Run) {
	if n := len(r.chunks); n > 0 {
		if last := r.chunks[n-1].last(); last.continues(run) {
			last.To = run.To
			return
		}
	}
	r.add(run)
}

// add is push for a run that is known not to continue the last.
func (r *runList) add(run *Run) {
	if n := len(r.chunks); n == 0 || len(r.chunks[n-1].runs) >= chunkRuns {
		r.chunks = append(r.chunks, newChunk(r.buffer()))
	}
	c := &r.chunks[len(r.chunks)-1]
	c.runs = append(c.runs, *run)
	c.note(run)
	r.due = min(r.due, run.At)
	r.n++
	r.work++
}

// splice replaces runs[from:to] of chunk i, and restores what the list promises
// of its chunks: none empty, none too long, none that ought to be merged.
func (r *runList) splice(i, from, to int, with []Run) {
	c := &r.chunks[i]
	r.n += len(with) - (to - from)
	r.work += len(c.runs) + len(with)
	c.runs = slices.Replace(c.runs, from, to, with...)
	after := i + 1
	switch n := len(c.runs); {
	case n == 0:
		r.remove(i)
		after = i
	case n > chunkRuns:
		after = i + r.split(i)
	default:
		c.runs = fit(c.runs)
		r.refresh(i)
	}
	r.join(after)
	r.join(i)
}

func (r *runList) refresh(i int) {
	r.chunks[i].summarize()
	r.due = min(r.due, r.chunks[i].due)
}

// split cuts chunk i into several that have room to grow, and returns how many.
func (r *runList) split(i int) int {
	var parts []chunk
	for part := range slices.Chunk(r.chunks[i].runs, chunkRuns*3/4) {
		c := newChunk(slices.Clone(part))
		parts = append(parts, c)
		r.due = min(r.due, c.due)
	}
	r.chunks = slices.Replace(r.chunks, i, i+1, parts...)
	return len(parts)
}

// join merges the runs that meet where chunk i begins, and then the two chunks
// there if both are short.
func (r *runList) join(i int) {
	if i <= 0 || i >= len(r.chunks) {
		return
	}
	left, right := &r.chunks[i-1], &r.chunks[i]
	if left.last().continues(&right.runs[0]) {
		left.last().To = right.runs[0].To
		right.runs = slices.Delete(right.runs, 0, 1)
		r.n--
		if len(right.runs) == 0 {
			r.remove(i)
			return
		}
		right.summarize()
	}
	if len(left.runs)+len(right.runs) <= chunkRuns/2 {
		left.runs = append(left.runs, right.runs...)
		left.summarize()
		r.remove(i)
	}
}

// remove takes chunk i, whose runs are gone or have been moved, off the list.
// A short buffer is kept, so that a ledger that fills and empties by turns, as
// most do, allocates nothing.
func (r *runList) remove(i int) {
	if runs := r.chunks[i].runs; cap(runs) <= shortBuffer {
		clear(runs)
		r.spare = runs[:0]
	}
	r.chunks = slices.Delete(r.chunks, i, i+1)
}

// shortBuffer is the capacity, in runs, up to which keeping a buffer is
// cheaper than allocating it again.
const shortBuffer = 16

// buffer returns an empty slice for a chunk at the end of the list.
func (r *runList) buffer() []Run {
	if len(r.chunks) > 0 {
		return make([]Run, 0, chunkRuns)
	}
	spare := r.spare
	r.spare = nil
	return spare
}

// fit copies runs that have shrunk to a small part of their buffer out of it.
func fit(runs []Run) []Run {
	if cap(runs) > shortBuffer && cap(runs) > 4*len(runs) {
		return slices.Clone(runs)
	}
	return runs
}
