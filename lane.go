package rheo

import "sync"

// errHeldUp is why what lies behind a failure in an ordered partition is given
// back.
var errHeldUp = Errorf(ErrStaleLease, "an event before it in its partition has failed: both are given back, to be handled in order")

// lane is a batch of one partition that must be handled and settled in order.
// What has gone wrong in it holds up what lies behind: that may neither be
// handled nor end before it. Deliveries without order have no lane, and a nil
// lane holds nothing up.
type lane struct {
	mu     sync.Mutex
	batch  []*delivered // nil once all of it has landed
	open   int          // how many of it have not landed
	broken int64        // the lowest sequence that went wrong; 0 if none did
}

func newLane(batch []*delivered) *lane {
	l := &lane{batch: batch, open: len(batch)}
	for _, d := range batch {
		d.lane = l
	}
	return l
}

// breakAt holds up what lies behind the sequence.
func (l *lane) breakAt(sequence int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == 0 || sequence < l.broken {
		l.broken = sequence
	}
}

// holdsUp reports whether something before the sequence has gone wrong.
func (l *lane) holdsUp(sequence int64) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != 0 && l.broken < sequence
}

// left returns what of the batch may not have landed yet.
func (l *lane) left() []*delivered {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batch
}

// landOne counts a delivery that has landed, and reports whether it was the last.
func (l *lane) landOne() (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if last = l.open == 0; last {
		l.batch = nil
	}
	return last
}
