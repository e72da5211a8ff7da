package ledger

import "fmt"

const (
	ChunkRuns = chunkRuns
	// RunSize is the size of a Run in memory, roughly.
	RunSize = 80
)

// Work returns how many runs and summaries have been looked at or moved.
func Work(l *Ledger) int { return l.runs.work }

// Check returns an error if an invariant does not hold.
func Check(l *Ledger) error {
	var before Run
	for run := range l.All() {
		switch {
		case run.From <= before.To || run.To < run.From || run.To > l.cursor:
			return fmt.Errorf("%+v lies wrong after %+v, cursor %d", run, before, l.cursor)
		case before.continues(&run):
			return fmt.Errorf("%+v and %+v are not merged", before, run)
		case run.State == Leased && run.Attempt < 1,
			run.State == Available && (run.Attempt < 0 || run.Claim != 0 || run.Consumer != ""),
			run.State != Leased && run.State != Available:
			return fmt.Errorf("%+v is in no valid state", run)
		}
		before = run
	}
	return l.runs.check()
}

func (r *runList) check() error {
	n := 0
	for i, c := range r.chunks {
		n += len(c.runs)
		exact := newChunk(c.runs)
		switch {
		case len(c.runs) == 0 || len(c.runs) > chunkRuns:
			return fmt.Errorf("chunk %d has %d runs", i, len(c.runs))
		case c.due != exact.due || c.busy != exact.busy:
			return fmt.Errorf("chunk %d says due %d and busy %d, not %d and %d", i, c.due, c.busy, exact.due, exact.busy)
		case r.due > c.due:
			return fmt.Errorf("due %d is above chunk %d's %d", r.due, i, c.due)
		}
	}
	if n != r.n {
		return fmt.Errorf("%d runs, and n is %d", n, r.n)
	}
	if len(r.chunks) > 1+4*n/chunkRuns+1 {
		return fmt.Errorf("%d chunks for %d runs", len(r.chunks), n)
	}
	for _, run := range r.scratch[:cap(r.scratch)] {
		if run != (Run{}) {
			return fmt.Errorf("scratch space still holds %+v", run)
		}
	}
	return nil
}

// Capacity returns how many runs the ledger's buffers have room for.
func Capacity(l *Ledger) int {
	n := cap(l.runs.scratch) + cap(l.runs.spare)
	for _, c := range l.runs.chunks[:cap(l.runs.chunks)] {
		n += cap(c.runs)
	}
	return n
}
