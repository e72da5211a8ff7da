package ledger_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rheo-go/rheo/ledger"
)

func encode(l *ledger.Ledger) []byte {
	data, err := l.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return data
}

// sealed adds the checksum to a body.
func sealed(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clip(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// specimens are ledgers that between them have everything an encoding can.
func specimens() map[string]*ledger.Ledger {
	extremes := ledger.New(math.MaxInt64 - 3)
	extremes.Claim(ledger.Claim{ID: math.MaxUint64, Now: math.MinInt64, Expires: math.MinInt64, Max: 1, High: math.MaxInt64})
	extremes.Claim(ledger.Claim{ID: 0, Now: math.MinInt64, Expires: math.MaxInt64, Max: 2, High: math.MaxInt64})
	extremes.Settle(nack(math.MaxInt64, strings.Repeat("long ", 1000), 0, math.MaxInt64), 0)

	failed := ledger.New(0)
	for i := range int64(30) {
		failed.Claim(claim(uint64(i+1), i, 10))
		reason := strings.Repeat("x", int(i%20))
		failed.Settle(nack(i*i-10, reason, uint64(i+1), sequence(1, failed.Cursor(), 3)...), 3)
	}
	return map[string]*ledger.Ledger{
		"new": ledger.New(0), "acked": ledger.New(1_000_000), "holes": holes(5), "singles": singles(100),
		"mixed": mixed(300), "extremes": extremes, "failed": failed,
	}
}

func TestEncodingRoundTrip(t *testing.T) {
	t.Parallel()
	for name, l := range specimens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := encode(l)
			decoded := holes(3) // overwritten
			if err := decoded.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			clear(data) // nothing of it is kept
			want(t, decoded, show(l))
			same(t, encode(decoded), encode(l))
		})
	}
}

// TestEncodingIsPinned: what is stored must stay readable.
func TestEncodingIsPinned(t *testing.T) {
	t.Parallel()
	l := ledger.New(10)
	l.Claim(claim(0x0102030405060708, 1000, 5))
	held(t, l, nack(2000, "boom", 0x0102030405060708, 12), ack(0x0102030405060708, 13), release(0x0102030405060708, 15))
	same(t, hex.EncodeToString(encode(l)), strings.Join([]string{
		"01",   // version
		"0f04", // cursor 15, four runs
		"23090008070605040302" + "01" + "e40f" + "010177", // 11: attempt 1, leased, gap of 10, by a new lease until 1010 by w
		"2802" + "04" + "626f6f6d" + "a01f",               // 12: attempt 1, reason boom, at 2000
		"3300",                                            // 14: attempt 1, gap of 1, leased alike
		"10",                                              // 15: attempt 0, at once
		hex.EncodeToString(encode(l)[len(encode(l))-4:]), // the checksum
	}, ""))
}

// TestManyAckedEventsEncodeSmall: what is done with costs nothing.
func TestManyAckedEventsEncodeSmall(t *testing.T) {
	t.Parallel()
	const batch = 1000
	l := ledger.New(0)
	for id := uint64(1); id <= 1000; id++ {
		c := claim(id, 1_780_000_000_000_000+int64(id), batch, high(1_000_000))
		c.Consumer, c.Expires = "worker-7f9c-1", c.Now+30_000_000
		first := l.Claim(c).Spans[0].From
		acked := sequence(first, first+batch-1, 1)
		if id%100 == 0 {
			acked = slices.Delete(acked, 500, 501)
		}
		if id%200 == 0 {
			held(t, l, nack(c.Now+60_000_000, "connection refused", id, first+500))
		}
		held(t, l, ack(id, acked...))
	}
	same(t, l.Cursor(), 1_000_000)
	same(t, l.Len(), 10)
	if n := len(encode(l)); n > 250 {
		t.Errorf("%d bytes", n)
	}
}

func TestEncodingOfManyRunsIsCompact(t *testing.T) {
	t.Parallel()
	l := mixed(10_000)
	if perRun := float64(len(encode(l))) / float64(l.Len()); perRun > 4 {
		t.Errorf("%.1f bytes a run", perRun)
	}
}

func TestDecodingRefusesEveryDamage(t *testing.T) {
	t.Parallel()
	for name, l := range specimens() {
		data := encode(l)
		data = data[:min(len(data), 700)]
		for i := range data {
			for _, change := range []byte{1, 0x10, 0x80, 0xff} {
				damaged := bytes.Clone(data)
				damaged[i] ^= change
				refused(t, name, damaged)
			}
			refused(t, name, data[:i])
		}
		refused(t, name, append(bytes.Clone(data), 0))
	}
}

func refused(t *testing.T, name string, data []byte) {
	t.Helper()
	l := ledger.New(7)
	err := l.UnmarshalBinary(data)
	if !errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrVersion) {
		t.Errorf("%s: %x gives %v", name, data, err)
	}
	if show(l) != "7/7" {
		t.Errorf("%s: the ledger was changed to %s", name, show(l))
	}
}

func TestDecodingRefusesOtherVersions(t *testing.T) {
	t.Parallel()
	data := encode(holes(3))
	data[0] = 2
	if err := new(ledger.Ledger).UnmarshalBinary(data); !errors.Is(err, ledger.ErrVersion) {
		t.Errorf("got %v", err)
	}
}

// TestDecodingRefusesWhatCouldBeSaidOtherwise gives bodies that have the right
// checksum but break a rule.
func TestDecodingRefusesWhatCouldBeSaidOtherwise(t *testing.T) {
	t.Parallel()
	const (
		leased, gap, long, reason, short = 1, 2, 4, 8, 16
		attempt1                         = 1 << 5
	)
	lease := func(claim byte) []byte { // new, until 5, no consumer
		return []byte{0, claim, 0, 0, 0, 0, 0, 0, 0, 10, 0}
	}
	for name, parts := range map[string][][]byte{
		"cursor in long form":           {{0x85, 0}, {0}},
		"cursor too high":               {binary.AppendUvarint(nil, 1<<63), {0}},
		"cursor that does not end":      {bytes.Repeat([]byte{0xff}, 11)},
		"no run count":                  {{9}},
		"more runs than data":           {{9, 2}, {short}},
		"data after the last run":       {{9, 1}, {short}, {short | gap, 0}},
		"run beyond the cursor":         {{9, 1}, {short | gap, 8}},
		"end beyond the cursor":         {{9, 1}, {short | long, 8}},
		"length that overflows":         {{9, 1}, {short | long}, binary.AppendUvarint(nil, math.MaxInt64)},
		"gap that overflows":            {{9, 1}, {short | gap}, binary.AppendUvarint(nil, math.MaxUint64)},
		"two runs that are one":         {{9, 2}, {short}, {short}},
		"attempt out of range":          {{9, 1}, binary.AppendUvarint(nil, 1<<36|short)},
		"lease without attempt":         {{9, 1}, {leased}, lease(1)},
		"same lease before any":         {{9, 1}, {leased | attempt1 | short}},
		"lease further back than any":   {{9, 2}, {leased | attempt1}, lease(1), {leased | attempt1 | gap, 0, 2}},
		"same lease in long form":       {{9, 2}, {leased | attempt1}, lease(1), {leased | attempt1 | gap, 0, 1}},
		"known lease introduced":        {{9, 2}, {leased | attempt1}, lease(1), {leased | attempt1 | gap, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		"lease cut off":                 {{9, 1}, {leased | attempt1}, lease(1)[:5]},
		"time 0 in long form":           {{9, 1}, {0, 0}},
		"empty reason":                  {{9, 1}, {short | reason, 0}},
		"empty reason introduced":       {{9, 1}, {short | reason, 1, 0}},
		"reason not yet known":          {{9, 1}, {short | reason, 2}},
		"known reason introduced":       {{9, 2}, {short | reason, 1, 1, 'x'}, {short | reason | gap, 0, 2, 1, 'x'}},
		"reason longer than data":       {{9, 1}, {short | reason, 1, 9, 'x'}},
		"reason of tremendous length":   {{9, 1}, {short | reason, 1}, binary.AppendUvarint(nil, math.MaxUint64)},
		"head that does not end":        {{9, 1}, {0x90}},
		"empty consumer in long form":   {{9, 1}, {leased | attempt1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 10, 1, 0}},
		"tremendous number of runs":     {{9}, binary.AppendUvarint(nil, math.MaxUint64)},
		"run count beyond what is sane": {binary.AppendUvarint(nil, math.MaxInt64), binary.AppendUvarint(nil, 1<<40)},
	} {
		body := slices.Concat(append([][]byte{{1}}, parts...)...)
		refused(t, name, sealed(body))
	}
	refused(t, "nothing", nil)
	refused(t, "only a version", sealed([]byte{1}))
}

func TestDecodingAllocatesInProportion(t *testing.T) {
	body := append([]byte{1, 100}, binary.AppendUvarint(nil, 3000)...)
	body = append(body, make([]byte, 3000)...) // as many runs as bytes, the first of them bad
	data := sealed(body)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	refused(t, "zeros", data)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(2*ledger.RunSize*len(data)) {
		t.Errorf("%d bytes allocated for %d", n, len(data))
	}
}

func FuzzDecode(f *testing.F) {
	for _, l := range specimens() {
		if data := encode(l); len(data) < 2000 {
			f.Add(data[:len(data)-4])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = new(ledger.Ledger).UnmarshalBinary(body)
		data := sealed(body) // or no change would get past the checksum
		var l ledger.Ledger
		if err := l.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if err := ledger.Check(&l); err != nil {
			t.Fatal(err)
		}
		if again := encode(&l); !bytes.Equal(again, data) {
			t.Fatalf("accepted\n%x and encoded\n%x", data, again)
		}
		l.Claim(claim(1, math.MaxInt64, 3, high(math.MaxInt64)))
		l.Settle(ack(1, sequence(1, 50, 1)...), 3)
		if err := ledger.Check(&l); err != nil {
			t.Fatal(err)
		}
	})
}
