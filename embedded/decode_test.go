package embedded

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rheo-go/rheo"
)

var testBucket = bucketName(eventsLetter, 1, 2)

// randomEvents returns n events of all sizes.
func randomEvents(r *rand.Rand, n int) []rheo.Event {
	events := make([]rheo.Event, n)
	text := func(most int) string { return strings.Repeat("ä", r.IntN(most)) }
	for i := range events {
		e := &events[i]
		e.Stream, e.Partition, e.Sequence = "s", 2, int64(i+1)
		e.ID, e.Key, e.Type, e.Payload = "x"+text(100), text(500), text(100), []byte(`"`+text(1000)+`"`)
		e.Timestamp = timeOf(r.Int64N(1 << 50))
		for range r.IntN(3) {
			if e.Metadata == nil {
				e.Metadata = make(map[string]string)
			}
			e.Metadata["m"+text(100)] = text(100)
		}
	}
	return events
}

func encodeBlock(events []rheo.Event) (key, sealed []byte) {
	var encoded encodedEvents
	var scratch []byte
	for i := range events {
		scratch = encoded.add(&events[i], scratch)
	}
	var b blockBuilder
	half := len(events) / 2
	if half > 0 {
		b.add(&encoded, 0, half)
	}
	b.add(&encoded, half, len(events))
	key = sequenceKey(int64(len(events)))
	return key, b.finish(testBucket, key, &arena{})
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		events := randomEvents(r, 1+r.IntN(12))
		key, sealed := encodeBlock(events)
		b, err := parseBlock(testBucket, key, sealed)
		if err != nil {
			t.Fatal(err)
		}
		first := 1 + r.IntN(len(events))
		last := first + r.IntN(len(events)-first+1)
		got, err := b.decode(nil, int64(first), int64(last), "s", 2)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events[first-1:last], got); diff != "" {
			t.Fatal(diff)
		}
		newest := time.Time{}
		for i := range events {
			if events[i].Timestamp.After(newest) {
				newest = events[i].Timestamp
			}
		}
		if !timeOf(b.newest).Equal(newest) {
			t.Fatalf("newest is %v, want %v", timeOf(b.newest), newest)
		}
	}
}

// A block that grows out of its limit is what its size says, and no longer.
func TestBlockSize(t *testing.T) {
	t.Parallel()
	for _, adding := range []int{1, 26_000, 1 << 20, 1 << 30} {
		if size := blockSize(adding); size < 1900 || size > 32<<10 {
			t.Errorf("blocks of %d bytes when %d are added", size, adding)
		}
	}
}

// Whatever has the right checksum is decoded, or is an error.
func FuzzDecode(f *testing.F) {
	key, sealed := encodeBlock(randomEvents(rand.New(rand.NewPCG(1, 2)), 3))
	f.Add(sealed[:len(sealed)-sealSize])
	f.Add(appendClaim(nil, &claim{group: 1, version: 7})[recordHead:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		value = slices.Clip(value)
		if b, err := parseBlock(testBucket, key, seal(testBucket, key, value)); err == nil {
			if events, err := b.decode(nil, b.first, b.last, "s", 0); err == nil && int64(len(events)) != b.last-b.first+1 {
				t.Fatalf("%d events in %d..%d", len(events), b.first, b.last)
			}
		}
		_, _ = decodeClaim(value)
		_, _, _ = nextRecord(value)
		if leaf, err := openIDLeaf(testBucket, key, seal(testBucket, key, value)); err == nil {
			_, _ = leaf.merge([]idEntry{{id: []byte("x"), sequence: 1}})
		}
		_, _ = decodeStream(key, seal(streamsBucket, key, shorten(value)))
		_, _ = decodeDeadLetter(key, seal(gravesBucket, key, value))
	})
}

// shorten keeps a stream's number of partitions to what a test can make.
func shorten(value []byte) []byte {
	f := fields{b: value}
	number := f.uint()
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, number), f.uint()%8), f.b...)
}
