package rheo

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// idSource makes event IDs: UUIDv7s (RFC 9562, method 3: twelve bits of sub-millisecond
// time) that rise from one to the next, so that an index over them grows at one end. The
// zero value is ready; it may be used concurrently.
type idSource struct {
	last atomic.Uint64 // the time in the latest, see ticks
}

// ticks are what a UUIDv7 counts time in: 4096 to the millisecond.
func ticks(at time.Time) uint64 {
	ns := at.UnixNano()
	ms := ns / int64(time.Millisecond)
	return uint64(ms<<12 | (ns%int64(time.Millisecond))<<12/int64(time.Millisecond)) //nolint:gosec // it wraps far outside the years that fit
}

// next returns an ID of that time, or of just after the latest: IDs of one tick would come
// in any order. A clock that was set back by more than a second is followed.
func (s *idSource) next(now time.Time) string {
	const second = 1000 << 12
	at := ticks(now)
	for {
		last, mine := s.last.Load(), at
		if last >= at && last-at < second {
			mine = last + 1
		}
		if s.last.CompareAndSwap(last, mine) {
			return formatUUID(mine)
		}
	}
}

func formatUUID(at uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], at>>12<<16|0x7000|at&0xfff)
	_, _ = rand.Read(b[8:]) // documented never to fail
	b[8] = b[8]&0x3f | 0x80

	var s [36]byte
	hex.Encode(s[:8], b[:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}
