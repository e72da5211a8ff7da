package embedded

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/rheo-go/rheo/ledger"
)

// claim is a record of the claims log: what a fetch took in one partition, as an
// effect on the group's ledger. It says what the deliveries became, not what they
// were before; so it can be applied to a ledger that lacks changes in between.
type claim struct {
	group     uint32
	partition int
	version   uint64 // of the ledger, after it
	id        uint64
	expires   int64
	consumer  string
	spans     []ledger.Span
}

func (c *claim) restore(l *ledger.Ledger) error {
	return l.Restore(c.id, c.consumer, c.expires, c.spans)
}

// A record is its length and its CRC-32C, 4 bytes each, little endian, and then
// the claim.
const recordHead = 8

// maxRecord is more than any record has. What claims to be longer is none.
const maxRecord = 64 << 20

func appendClaim(b []byte, c *claim) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = binary.AppendUvarint(b, uint64(c.group))
	b = binary.AppendUvarint(b, uint64(c.partition))
	b = binary.AppendUvarint(b, c.version)
	b = binary.LittleEndian.AppendUint64(b, c.id)
	b = binary.AppendVarint(b, c.expires)
	b = appendString(b, c.consumer)
	b = binary.AppendUvarint(b, uint64(len(c.spans)))
	for _, s := range c.spans {
		b = binary.AppendUvarint(b, uint64(s.From))
		b = binary.AppendUvarint(b, uint64(s.To-s.From))
		b = binary.AppendUvarint(b, uint64(s.Attempt))
		b = appendString(b, s.Reason)
	}
	body := b[start+recordHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// nextRecord cuts the first record's body off b, or returns false if there is no
// whole one.
func nextRecord(b []byte) (body, rest []byte, ok bool) {
	if len(b) < recordHead {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	sum := binary.LittleEndian.Uint32(b[4:])
	b = b[recordHead:]
	if n == 0 || n > maxRecord || uint64(n) > uint64(len(b)) || crc32.Checksum(b[:n], castagnoli) != sum {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

func decodeClaim(body []byte) (claim, error) {
	f := fields{b: body}
	c := claim{group: uint32(f.uint()), partition: int(f.uint()), version: f.uint()}
	if id := f.bytes(8); !f.bad {
		c.id = binary.LittleEndian.Uint64(id)
	}
	c.expires, c.consumer = f.int(), f.string()
	for range f.uint() {
		s := ledger.Span{From: int64(f.uint())}
		s.To = s.From + int64(f.uint())
		s.Attempt, s.Reason = int(f.uint()), f.string()
		if f.bad {
			break
		}
		c.spans = append(c.spans, s)
	}
	return c, f.end()
}
