package rheo

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// newID returns a UUIDv7 (RFC 9562, method 3: twelve bits of sub-millisecond
// time), so that IDs made one after another sort nearly in that order and an
// index over them grows at one end.
func newID(now time.Time) string {
	var b [16]byte
	ns := now.UnixNano()
	ms := ns / int64(time.Millisecond)
	frac := (ns % int64(time.Millisecond)) << 12 / int64(time.Millisecond)
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16|0x7000|uint64(frac))
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
