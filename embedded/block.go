package embedded

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/rheo-go/rheo"
)

// A block is what the log keeps under one key, the block's last sequence: the
// events that one commit added to a partition, or a part of them. Numbers are
// uvarints unless said otherwise.
//
//	version   1 byte
//	count     events
//	newest    the latest timestamp among them, 8 bytes, little endian
//	heads     their length, and then for each event
//	            length of the head, length of the payload,
//	            head: timestamp (8 bytes), id, key, type, metadata (how many, then
//	            name and value of each); each string with its length before it
//	payloads  one after the other
//
// The heads stand together so that one string can hold them all: an event then
// costs no allocation of its own.
const blockVersion = 1

// maxBlockEvents bounds the events of a block.
const maxBlockEvents = 256

// blockSize returns the size that the blocks of one commit should have, if that
// adds so many bytes to a partition. bbolt fills a page with two values at least,
// and writes the last page, with what it had before, once more in each commit: so
// two blocks should fill a page, or a few that belong together, and a commit should
// have many more blocks than the page that is written again.
func blockSize(adding int) int {
	const (
		page     = 4 << 10
		maxPages = 16
		overhead = 64 // of page, key and block, for each of the two
	)
	pages := min(maxPages, max(1, adding/(8*page)))
	return pages*page/2 - overhead
}

// block is an encoded block, with its checksum verified.
type block struct {
	first, last int64
	newest      int64
	heads       []byte
	payloads    []byte
}

func parseBlock(bucket, key, sealed []byte) (block, error) {
	if len(key) != sequenceSize {
		return block{}, errFormat
	}
	value, err := unseal(bucket, key, sealed)
	if err != nil {
		return block{}, err
	}
	f := fields{b: value}
	if version := f.bytes(1); !f.bad && version[0] != blockVersion {
		return block{}, errNewer
	}
	b := block{last: int64(binary.BigEndian.Uint64(key))}
	count := f.uint()
	if newest := f.bytes(timeSize); !f.bad {
		b.newest = int64(binary.LittleEndian.Uint64(newest))
	}
	b.heads = f.bytes(f.uint())
	b.payloads = f.b
	b.first = b.last - int64(count) + 1
	if f.bad || count == 0 || count > maxBlockEvents || b.first < 1 {
		return block{}, errFormat
	}
	return b, nil
}

const (
	sequenceSize = 8
	timeSize     = 8
)

// stretch is a part of a block: the bytes of neighbouring events.
type stretch struct{ head, payload int }

// skip returns where the n-th event begins.
func (b *block) skip(n int64) (at stretch, err error) {
	f := fields{b: b.heads}
	for range n {
		head, payload := f.uint(), f.uint()
		f.bytes(head)
		at.payload += int(payload)
	}
	at.head = len(b.heads) - len(f.b)
	if f.bad || at.payload > len(b.payloads) {
		return stretch{}, errFormat
	}
	return at, nil
}

// decode appends the events from first to last, which the block holds. They share
// nothing with it.
func (b *block) decode(dst []rheo.Event, first, last int64, stream string, partition int) ([]rheo.Event, error) {
	from, to := stretch{}, stretch{len(b.heads), len(b.payloads)}
	var err error
	if first > b.first {
		if from, err = b.skip(first - b.first); err != nil {
			return dst, err
		}
	}
	if last < b.last {
		if to, err = b.skip(last - b.first + 1); err != nil {
			return dst, err
		}
	}
	d := headReader{
		s:        string(b.heads[from.head:to.head]),
		payloads: bytes.Clone(b.payloads[from.payload:to.payload]),
	}
	for sequence := first; sequence <= last; sequence++ {
		dst = append(dst, rheo.Event{Stream: stream, Partition: partition, Sequence: sequence})
		d.event(&dst[len(dst)-1])
	}
	if d.bad || d.s != "" || len(d.payloads) > 0 {
		return dst, errFormat
	}
	return dst, nil
}

// headReader reads heads from a string, of which the events' strings are parts.
type headReader struct {
	s        string
	payloads []byte
	bad      bool
}

func (d *headReader) uint() uint64 {
	var v uint64
	for i := 0; i < len(d.s) && i < binary.MaxVarintLen64; i++ {
		c := d.s[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.s = d.s[i+1:]
			return v
		}
	}
	d.s, d.bad = "", true
	return 0
}

func (d *headReader) take(n uint64) string {
	if n > uint64(len(d.s)) {
		d.s, d.bad = "", true
		return ""
	}
	s := d.s[:n]
	d.s = d.s[n:]
	return s
}

func (d *headReader) event(e *rheo.Event) {
	d.uint()
	payload := d.uint()
	if payload > uint64(len(d.payloads)) {
		d.bad, payload = true, 0
	}
	e.Payload = d.payloads[:payload:payload]
	d.payloads = d.payloads[payload:]
	e.Timestamp = timeOf(d.time())
	e.ID = d.take(d.uint())
	e.Key = d.take(d.uint())
	e.Type = d.take(d.uint())
	if n := d.uint(); n > 0 && n <= uint64(len(d.s)) {
		e.Metadata = make(map[string]string, n)
		for range n {
			name := d.take(d.uint())
			e.Metadata[name] = d.take(d.uint())
		}
	}
}

func (d *headReader) time() int64 {
	s := d.take(timeSize)
	if d.bad {
		return 0
	}
	var v uint64
	for i := range timeSize {
		v |= uint64(s[i]) << (8 * i)
	}
	return int64(v)
}

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// encodedEvents are events as blocks hold them, but not yet cut into blocks.
type encodedEvents struct {
	heads, payloads []byte
	ends            []stretch // where each event ends
	times           []int64
}

func (p *encodedEvents) add(e *rheo.Event, scratch []byte) []byte {
	head := binary.LittleEndian.AppendUint64(scratch[:0], uint64(e.Timestamp.UnixMicro()))
	head = appendString(head, e.ID)
	head = appendString(head, e.Key)
	head = appendString(head, e.Type)
	head = binary.AppendUvarint(head, uint64(len(e.Metadata)))
	for name, value := range e.Metadata {
		head = appendString(appendString(head, name), value)
	}
	p.heads = binary.AppendUvarint(p.heads, uint64(len(head)))
	p.heads = binary.AppendUvarint(p.heads, uint64(len(e.Payload)))
	p.heads = append(p.heads, head...)
	p.payloads = append(p.payloads, e.Payload...)
	p.ends = append(p.ends, stretch{len(p.heads), len(p.payloads)})
	p.times = append(p.times, e.Timestamp.UnixMicro())
	return head
}

// stretchOf returns the bytes of the events from..to-1.
func (p *encodedEvents) stretchOf(from, to int) (heads, payloads []byte) {
	start := stretch{}
	if from > 0 {
		start = p.ends[from-1]
	}
	end := p.ends[to-1]
	return p.heads[start.head:end.head], p.payloads[start.payload:end.payload]
}

// size returns how many bytes the i-th event has.
func (p *encodedEvents) size(i int) int {
	heads, payloads := p.stretchOf(i, i+1)
	return len(heads) + len(payloads)
}

// blockBuilder collects the events of one block after the other.
type blockBuilder struct {
	limit  int // of bytes
	count  int
	size   int
	newest int64
	pieces []blockPiece
}

// blockPiece is a stretch of neighbours that go into a block.
type blockPiece struct{ heads, payloads []byte }

// takes reports whether n events of that size together may join the block.
func (b *blockBuilder) takes(n, size int) bool {
	return b.count+n == 1 || b.count+n <= maxBlockEvents && b.size+size <= b.limit
}

func (b *blockBuilder) add(p *encodedEvents, from, to int) {
	heads, payloads := p.stretchOf(from, to)
	b.pieces = append(b.pieces, blockPiece{heads, payloads})
	b.size += len(heads) + len(payloads)
	for i := from; i < to; i++ {
		if b.count == 0 || p.times[i] > b.newest {
			b.newest = p.times[i]
		}
		b.count++
	}
}

// finish returns the block, sealed, in space from the arena, and begins the next.
func (b *blockBuilder) finish(bucket, key []byte, a *arena) []byte {
	const overhead = 1 + 2 + timeSize + 5 + sealSize
	v := append(a.take(overhead+b.size), blockVersion)
	v = binary.AppendUvarint(v, uint64(b.count))
	v = binary.LittleEndian.AppendUint64(v, uint64(b.newest))
	heads := 0
	for i := range b.pieces {
		heads += len(b.pieces[i].heads)
	}
	v = binary.AppendUvarint(v, uint64(heads))
	for i := range b.pieces {
		v = append(v, b.pieces[i].heads...)
	}
	for i := range b.pieces {
		v = append(v, b.pieces[i].payloads...)
	}
	b.count, b.size, b.pieces = 0, 0, b.pieces[:0]
	return seal(bucket, key, v)
}
