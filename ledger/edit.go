package ledger

import "math"

// An editor changes a run list in one pass, from low sequences to high. What
// it passes over it keeps; what it is told to change goes to out, which takes
// the place of the runs read when the editor leaves their chunk. Pieces of a
// split run that stay alike merge again as they are emitted, so callers cut
// runs as they like.
//
// Only close makes the last changes effective.
type editor struct {
	runs    *runList
	chunk   int   // the chunk under edit; -1 if none
	end     int64 // the last sequence in that chunk, or in the one before it was left
	first   int   // out replaces the chunk's runs from first,
	pos     int   // up to and including pos, where cur is what remains of it
	cur     Run
	open    bool // cur is valid; else all of the chunk has been read
	changed bool // out differs from what it replaces
	out     []Run
}

func (r *runList) edit() editor {
	return editor{runs: r, chunk: -1, out: r.scratch[:0]}
}

// close applies what remains and gives the scratch space back, unless it is
// out of proportion to the list.
func (e *editor) close() {
	e.flush()
	clear(e.out)
	e.runs.scratch = nil
	if cap(e.out) <= max(shortBuffer, 2*e.runs.n) {
		e.runs.scratch = e.out[:0]
	}
}

// seek moves to sequence, which must not lie before what has been passed, and
// keeps everything before it. It reports whether the sequence is open; then
// cur begins with it. If not, cur is the run that follows, if there is one in
// the chunk.
func (e *editor) seek(sequence int64) bool {
	if e.chunk < 0 || sequence > e.end && e.chunk < len(e.runs.chunks)-1 {
		e.flush()
		e.load(e.runs.search(sequence), sequence)
	}
	for e.open && e.cur.To < sequence {
		e.step()
	}
	e.keep(sequence)
	return e.open && e.cur.From == sequence
}

// next reports whether there is a run left, moving to the next chunk if need
// be. If not, the editor stays at the end of the last chunk.
func (e *editor) next() bool {
	if e.open {
		return true
	}
	if e.end == math.MaxInt64 || e.runs.search(e.end+1) == len(e.runs.chunks) {
		return false
	}
	from := e.end + 1
	e.flush()
	e.load(e.runs.search(from), from)
	return true
}

// nextDue moves to the next run, from cur on, that is due, past whole chunks
// where it can.
func (e *editor) nextDue(now int64) bool {
	for {
		for ; e.open; e.step() {
			if e.cur.At <= now {
				return true
			}
		}
		if e.end == math.MaxInt64 {
			return false
		}
		from := e.end + 1
		e.flush()
		i := e.runs.nextDue(e.runs.search(from), now)
		if i == len(e.runs.chunks) {
			return false
		}
		e.load(i, from)
	}
}

// step keeps cur and goes on to the run after it.
func (e *editor) step() {
	e.emit(&e.cur)
	e.pos++
	e.read()
}

// turn puts cur, up to and including to, into the state of run.
func (e *editor) turn(to int64, run Run) {
	run.From, run.To = e.cur.From, to
	e.emit(&run)
	e.drop(to)
}

// drop takes cur, up to and including to, off the list.
func (e *editor) drop(to int64) {
	e.changed = true
	if to < e.cur.To {
		e.cur.From = to + 1
		return
	}
	e.pos++
	e.read()
}

// put opens all of run in its state, whatever its sequences were.
func (e *editor) put(run Run) {
	e.seek(run.From)
	for e.next() && e.cur.From <= run.To {
		e.drop(min(e.cur.To, run.To))
	}
	e.emit(&run)
	e.changed = true
}

// load begins to edit a chunk, at sequence. The run before it is read too,
// since what follows may have to merge with it.
func (e *editor) load(i int, sequence int64) {
	e.chunk = max(0, min(i, len(e.runs.chunks)-1))
	e.first, e.pos, e.open = 0, 0, false
	if len(e.runs.chunks) == 0 {
		return
	}
	c := &e.runs.chunks[e.chunk]
	e.end = c.last().To
	e.pos = c.find(sequence)
	if e.pos > 0 {
		e.first = e.pos - 1
		e.emit(&c.runs[e.first])
	}
	e.read()
	e.keep(sequence)
}

func (e *editor) read() {
	runs := e.runs.chunks[e.chunk].runs
	if e.open = e.pos < len(runs); e.open {
		e.cur = runs[e.pos]
	}
	e.runs.work++
}

// keep emits the part of cur before sequence.
func (e *editor) keep(sequence int64) {
	if !e.open || e.cur.From >= sequence {
		return
	}
	head := e.cur
	head.To = sequence - 1
	e.emit(&head)
	e.cur.From = sequence
}

func (e *editor) emit(run *Run) {
	if n := len(e.out); n > 0 && e.out[n-1].continues(run) {
		e.out[n-1].To = run.To
		return
	}
	e.out = append(e.out, *run)
}

// flush applies the changes to the chunk under edit, and leaves it.
func (e *editor) flush() {
	if e.changed {
		to := e.pos
		if e.open {
			e.emit(&e.cur)
			to++
		}
		if len(e.runs.chunks) == 0 {
			e.runs.chunks = append(e.runs.chunks, chunk{runs: e.runs.buffer()})
		}
		e.runs.splice(e.chunk, e.first, to, e.out)
	}
	clear(e.out)
	e.out = e.out[:0]
	e.chunk, e.open, e.changed = -1, false, false
}
