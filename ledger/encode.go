package ledger

import (
	"encoding/binary"
	"hash/crc32"
)

// The encoding of a ledger. Numbers are uvarints in their shortest form unless
// said otherwise; a delta is a difference, zigzag coded, that wraps around.
//
//	version     1 byte
//	cursor
//	runs        how many
//	each run:   head      attempt<<5 | flags
//	            gap-1     if flagGap:  sequences between the run before, or 0, and this
//	            length-2  if flagLong
//	            reason    if flagReason: a string, not empty
//	            if leased, unless flagShort (the same lease as the leased run before):
//	            lease     how many leases back it was introduced, at most 16, or 0 and
//	                        claim     8 bytes, little endian
//	                        expires   delta to that of the lease introduced before, or 0
//	                        consumer  a string
//	            if available, unless flagShort (at 0):
//	            at        delta to the last such at, or 0
//	checksum    CRC-32C of all of the above, 4 bytes, little endian
//
// A string is 0 if empty, else its place in the order of first use, from 1; at
// its first use its length and bytes follow.
//
// There is one encoding of a state. Decoding accepts no other: what can be said
// in a shorter way must be.
const encodingVersion = 1

const (
	flagLeased = 1 << iota
	flagGap
	flagLong
	flagReason
	flagShort

	attemptShift = iota
)

// leasesBack is how many of the leases introduced last a run may refer to. A
// fetch takes neighbours, so the runs of one lease lie close together.
const leasesBack = 16

const checksumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A lease is what the runs that one fetch took have in common.
type lease struct {
	claim    uint64
	expires  int64
	consumer string
}

// MarshalBinary implements [encoding.BinaryMarshaler]. It never fails.
func (l *Ledger) MarshalBinary() ([]byte, error) {
	const head, perRun = 64, 6
	return l.AppendBinary(make([]byte, 0, head+perRun*l.runs.n))
}

// AppendBinary implements [encoding.BinaryAppender]. It never fails. Equal
// states have equal encodings.
func (l *Ledger) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	e := encoder{b: append(b, encodingVersion)}
	e.uint(uint64(l.cursor))
	e.uint(uint64(l.runs.n))
	for run := range l.runs.all() {
		e.run(run)
	}
	return binary.LittleEndian.AppendUint32(e.b, crc32.Checksum(e.b[start:], castagnoli)), nil
}

// An encoder appends runs to b.
type encoder struct {
	b       []byte
	to      int64 // where the last run ended
	at      int64 // the last that was written
	leases  recentLeases
	strings stringTable
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) delta(from, to int64) {
	d := to - from
	e.uint(uint64(d<<1) ^ uint64(d>>63))
}

func (e *encoder) string(s string) {
	place, found := e.strings.place(s)
	if !found {
		place = e.strings.add(s)
	}
	e.uint(uint64(place))
	if !found {
		e.uint(uint64(len(s)))
		e.b = append(e.b, s...)
	}
}

func (e *encoder) run(run *Run) {
	gap, length := run.From-e.to-1, run.len()
	e.uint(uint64(run.Attempt)<<attemptShift | e.flags(run))
	if gap > 0 {
		e.uint(uint64(gap) - 1)
	}
	if length > 1 {
		e.uint(uint64(length) - 2)
	}
	if run.Reason != "" {
		e.string(run.Reason)
	}
	if run.State == Leased {
		e.lease(lease{run.Claim, run.At, run.Consumer})
	} else if run.At != 0 {
		e.delta(e.at, run.At)
		e.at = run.At
	}
	e.to = run.To
}

func (e *encoder) flags(run *Run) (flags uint64) {
	if run.From > e.to+1 {
		flags |= flagGap
	}
	if run.To > run.From {
		flags |= flagLong
	}
	if run.Reason != "" {
		flags |= flagReason
	}
	if run.State == Leased {
		flags |= flagLeased
		if e.leases.last(lease{run.Claim, run.At, run.Consumer}) {
			flags |= flagShort
		}
	} else if run.At == 0 {
		flags |= flagShort
	}
	return flags
}

func (e *encoder) lease(l lease) {
	if e.leases.last(l) {
		return
	}
	back := e.leases.back(l)
	e.uint(uint64(back))
	if back > 0 {
		e.leases.use(back)
		return
	}
	e.b = binary.LittleEndian.AppendUint64(e.b, l.claim)
	e.delta(e.leases.expires(), l.expires)
	e.string(l.consumer)
	e.leases.introduce(l)
}

// recentLeases are the leases that runs may refer to.
type recentLeases struct {
	ring    [leasesBack]lease
	n       int // leases introduced so far
	current int // which of them was used last, from 1; 0 if none
}

func (r *recentLeases) at(i int) *lease { return &r.ring[i%leasesBack] }

// last reports whether l is the lease used last.
func (r *recentLeases) last(l lease) bool {
	return r.current > 0 && *r.at(r.current - 1) == l
}

// back returns how many leases back l was introduced, or 0 if too many.
func (r *recentLeases) back(l lease) int {
	for back := 1; back <= min(r.n, leasesBack); back++ {
		if *r.at(r.n - back) == l {
			return back
		}
	}
	return 0
}

func (r *recentLeases) use(back int) *lease {
	r.current = r.n - back + 1
	return r.at(r.n - back)
}

func (r *recentLeases) introduce(l lease) {
	*r.at(r.n) = l
	r.n++
	r.current = r.n
}

// expires returns the expiry of the lease introduced last.
func (r *recentLeases) expires() int64 {
	if r.n == 0 {
		return 0
	}
	return r.at(r.n - 1).expires
}

// A stringTable numbers strings from 1 in the order of first use; the empty
// string is 0.
type stringTable struct {
	list   []string
	places map[string]int // of all, once they are more than a scan is good for
}

const scanStrings = 8

func (t *stringTable) place(s string) (place int, found bool) {
	if s == "" {
		return 0, true
	}
	if t.places != nil {
		place, found = t.places[s]
		return place, found
	}
	for i, known := range t.list {
		if known == s {
			return i + 1, true
		}
	}
	return 0, false
}

// add numbers a string that has no place yet.
func (t *stringTable) add(s string) int {
	t.list = append(t.list, s)
	if t.places == nil && len(t.list) > scanStrings {
		t.places = make(map[string]int)
		for i, known := range t.list {
			t.places[known] = i + 1
		}
	} else if t.places != nil {
		t.places[s] = len(t.list)
	}
	return len(t.list)
}
