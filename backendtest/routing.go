package backendtest

import (
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rheo-go/rheo"
)

func routing(s *subject) {
	const n = 5
	s.create(n)
	for i := range 40 {
		key, id := fmt.Sprint("key-", i), fmt.Sprint("id-", i)
		byKey := rheo.Event{ID: id, Key: key, Partition: (rheo.PHash2(key, n) + 1) % n} // not pinned: not heeded
		pinned := byKey
		pinned.Pinned = true
		equal(s, "partition by key", s.append(byKey)[0].Partition, rheo.PHash2(key, n))
		equal(s, "partition by ID", s.append(rheo.Event{ID: id + "x"})[0].Partition, rheo.PHash2(id+"x", n))
		equal(s, "pinned partition", s.append(pinned)[0].Partition, pinned.Partition)
		equal(s, "duplicate of a retry by key", s.append(byKey)[0].Duplicate, true)
		equal(s, "duplicate of a retry by ID", s.append(rheo.Event{ID: id + "x"})[0].Duplicate, true)
	}
	total := 0
	for p := range n {
		for _, e := range s.read(p) {
			equal(s, "partition of an event read", e.Partition, p)
			total++
		}
	}
	equal(s, "events", total, 120)
	own := s.instance(s.backend, rheo.Options{Router: func(key string, n int) int { return len(key) % n }})
	results, err := own.Append(s.Context(), s.stream, rheo.Event{Key: "abc"})
	s.noError(err)
	equal(s, "partition by a router of one's own", results[0].Partition, 3)
}

//go:embed testdata/phash2.tsv
var phash2Vectors string

// The golden vectors come from a real Erlang/OTP; see the file's first line.
func routingAsErlang(s *subject) {
	checked, routed := 0, 0
	for line := range strings.Lines(phash2Vectors) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		raw, err := hex.DecodeString(fields[0])
		s.noError(err)
		n, errN := strconv.Atoi(fields[1])
		want, errWant := strconv.Atoi(fields[2])
		s.noError(errors.Join(errN, errWant))
		key := string(raw)
		equal(s, fmt.Sprintf("PHash2(%x, %d)", key, n), rheo.PHash2(key, n), want)
		checked++
		if n <= 64 && key != "" && len(key) <= rheo.MaxKeyBytes && utf8.ValidString(key) && !strings.Contains(key, "\x00") {
			equal(s, fmt.Sprintf("partition of %x among %d", key, n), s.routed(key, n), want)
			routed++
		}
	}
	if checked < 900 || routed < 100 {
		s.Fatalf("only %d vectors were checked and %d keys routed", checked, routed)
	}
}

// routed appends an event with the key to a stream with n partitions and returns
// where it went.
func (s *subject) routed(key string, n int) int {
	s.Helper()
	stream := fmt.Sprint("partitions-", n)
	if err := s.in.CreateStream(s.Context(), stream, rheo.StreamConfig{Partitions: n}); err != nil {
		s.fails("creating a stream", err, rheo.ErrAlreadyExists)
	}
	results, err := s.in.Append(s.Context(), stream, rheo.Event{Key: key})
	s.noError(err)
	return results[0].Partition
}
