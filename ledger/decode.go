package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

var (
	// ErrCorrupt is returned for data that is not the encoding of a ledger, and
	// for spans that no claim can have returned.
	ErrCorrupt = errors.New("ledger: corrupt")

	// ErrVersion is returned for data in an encoding that this version of the
	// package does not know.
	ErrVersion = errors.New("ledger: unknown encoding version")
)

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It accepts exactly
// what MarshalBinary returns, and keeps nothing of data; else the error is
// [ErrCorrupt] or [ErrVersion] and the ledger is unchanged. What it allocates
// is in proportion to data.
func (l *Ledger) UnmarshalBinary(data []byte) error {
	body, err := open(data)
	if err != nil {
		return err
	}
	d := decoder{b: body}
	decoded := d.ledger()
	if d.wrong != "" {
		return fmt.Errorf("%w: %s at byte %d of %d", ErrCorrupt, d.wrong, len(data)-checksumSize-len(d.b), len(data))
	}
	*l = decoded
	return nil
}

// open checks version and checksum, and returns what is between them.
func open(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: no data", ErrCorrupt)
	}
	if data[0] != encodingVersion {
		return nil, fmt.Errorf("%w: %d, and this is version %d; was it written by a newer release?", ErrVersion, data[0], encodingVersion)
	}
	end := len(data) - checksumSize
	if end < 1 {
		return nil, fmt.Errorf("%w: only %d bytes", ErrCorrupt, len(data))
	}
	if crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrCorrupt)
	}
	return data[1:end], nil
}

// A decoder reads a ledger from b. The first thing wrong sticks; from then on
// numbers read as 0 and strings as empty.
type decoder struct {
	b       []byte
	wrong   string
	cursor  int64
	to      int64 // where the last run ended
	at      int64 // the last that was read
	leases  recentLeases
	strings stringTable
}

func (d *decoder) fail(what string) {
	if d.wrong == "" {
		d.wrong = what
	}
}

func (d *decoder) ledger() Ledger {
	d.cursor = int64(d.uint(math.MaxInt64))
	count := d.uint(uint64(len(d.b))) // each run takes a byte at least
	l := Ledger{cursor: d.cursor}
	if count > 0 {
		l.runs.spare = make([]Run, 0, min(count, chunkRuns))
	}
	var before, run Run
	for range count {
		d.run(&run)
		if before.continues(&run) {
			d.fail("two runs that are one")
		}
		if d.wrong != "" {
			break
		}
		l.runs.add(&run)
		before = run
	}
	if len(d.b) > 0 {
		d.fail("more data than runs")
	}
	return l
}

func (d *decoder) run(run *Run) {
	head := d.uint(maxAttempt<<attemptShift | 1<<attemptShift - 1)
	*run = Run{State: Available, Attempt: int(head >> attemptShift)}
	d.bounds(run, head)
	if head&flagReason != 0 {
		if run.Reason = d.string(); run.Reason == "" {
			d.fail("an empty reason")
		}
	}
	short := head&flagShort != 0
	switch {
	case head&flagLeased != 0:
		d.leased(run, short)
	case !short:
		if run.At = d.delta(d.at); run.At == 0 {
			d.fail("a time of 0 in long form")
		}
		d.at = run.At
	}
}

// bounds reads where the run begins and ends.
func (d *decoder) bounds(run *Run, head uint64) {
	room := uint64(d.cursor - d.to) // sequences left for runs
	gap, length := uint64(0), uint64(1)
	if head&flagGap != 0 {
		gap = 1 + d.uint(math.MaxInt64)
	}
	if head&flagLong != 0 {
		length = 2 + d.uint(math.MaxInt64)
	}
	if gap > room || length > room-gap {
		d.fail("a run beyond the cursor")
		return
	}
	run.From = d.to + int64(gap) + 1
	run.To = run.From + int64(length) - 1
	d.to = run.To
}

func (d *decoder) leased(run *Run, same bool) {
	if run.Attempt == 0 {
		d.fail("a lease without an attempt")
	}
	l := d.lease(same)
	run.State, run.Claim, run.At, run.Consumer = Leased, l.claim, l.expires, l.consumer
}

func (d *decoder) lease(same bool) lease {
	r := &d.leases
	if same {
		if r.current == 0 {
			d.fail("a lease like the one before the first")
			return lease{}
		}
		return *r.at(r.current - 1)
	}
	back := int(d.uint(uint64(min(r.n, leasesBack))))
	if back == 0 {
		return d.newLease()
	}
	if r.n-back == r.current-1 {
		d.fail("the same lease in long form")
	}
	return *r.use(back)
}

func (d *decoder) newLease() lease {
	var l lease
	if claim := d.bytes(8); claim != nil {
		l.claim = binary.LittleEndian.Uint64(claim)
	}
	l.expires = d.delta(d.leases.expires())
	l.consumer = d.string()
	if d.leases.back(l) > 0 {
		d.fail("a known lease in long form")
	}
	d.leases.introduce(l)
	return l
}

func (d *decoder) string() string {
	known := len(d.strings.list)
	place := int(d.uint(uint64(known) + 1))
	switch {
	case place == 0:
		return ""
	case place <= known:
		return d.strings.list[place-1]
	}
	s := string(d.bytes(d.uint(uint64(len(d.b)))))
	if _, found := d.strings.place(s); found {
		d.fail("a known string in long form")
	} else {
		d.strings.add(s)
	}
	return s
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("data that ends too soon")
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) delta(from int64) int64 {
	v := d.uint(math.MaxUint64)
	return from + (int64(v>>1) ^ -int64(v&1))
}

// uint reads a number in its shortest form, no greater than limit.
func (d *decoder) uint(limit uint64) uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 && uint64(d.b[0]) <= limit { // as most are
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	switch {
	case n <= 0:
		d.fail("a number that does not end")
	case n > 1 && d.b[n-1] == 0:
		d.fail("a number in long form")
	case v > limit:
		d.fail("a number out of range")
	default:
		d.b = d.b[n:]
		return v
	}
	return 0
}
