package embedded_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
)

func TestLeasesAfterCrash(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{MaxAttempts: 3})
	s.fill(0, 5)
	l := s.takes(2, "1/1", "2/1")
	s.takes(1, "3/1")
	s = s.crash()
	s.must(s.in.Ack(t.Context(), l[0])) // not taken by anyone since
	l = s.takes(9, "2/2", "3/2", "4/1", "5/1")
	s.must(s.in.Ack(t.Context(), l[3]))
	s = s.crash()
	s.takes(9, "2/3", "3/3", "4/2")
	s = s.crash()
	s.takes(9, "4/3")
	s.frontier(3, 2)
	s = s.crash()
	s.takes(9)
	s.frontier(5, 3)
}

func TestLeasesAfterClose(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 3)
	l := s.takes(2, "1/1", "2/1")
	s.must(s.in.Close())
	for _, file := range []string{"claims-0.log", "claims-1.log"} {
		if info, err := os.Stat(filepath.Join(s.store.Dir(), file)); err != nil || info.Size() > 0 {
			t.Fatalf("%s has %v bytes after Close (%v)", file, info.Size(), err)
		}
	}
	s = openStore(t, s.store.Dir(), s.clock)
	s.must(s.in.Ack(t.Context(), l[1]))
	s.takes(9, "1/2", "3/1")
}

// A claims log that is cut anywhere loses the claims behind that place, and
// nothing else.
func TestTornClaimsLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 4)
	for i := range 3 {
		s.takes(1, fmt.Sprintf("%d/1", i+1))
	}
	s.store.Abandon()
	path := filepath.Join(s.store.Dir(), "claims-0.log")
	whole, err := os.ReadFile(path)
	s.must(err)
	for _, spoil := range []func(b []byte, at int) []byte{
		func(b []byte, at int) []byte { return b[:at] },
		func(b []byte, at int) []byte { b[at] ^= 0x55; return b },
	} {
		before := -1
		for at := 0; at < len(whole); at += 9 {
			s.must(os.WriteFile(path, spoil(append([]byte(nil), whole...), at), 0o600))
			kept := s.claimsKept()
			if kept > 3 || kept < before {
				t.Fatalf("%d claims were kept of a log torn at %d of %d, %d of one torn before", kept, at, len(whole), before)
			}
			before = kept
		}
		if before != 2 {
			t.Fatalf("%d claims were kept of a log torn at its end", before)
		}
	}
	s.must(os.WriteFile(path, whole, 0o600))
	if kept := s.claimsKept(); kept != 3 {
		t.Fatalf("%d claims were kept of a whole log", kept)
	}
}

// claimsKept opens the store as it lies there, as a copy, and counts the events that
// have been fetched before.
func (s *testStore) claimsKept() int {
	s.Helper()
	dir := s.TempDir()
	s.must(os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(s.store.Dir())))
	c := openStore(s.T, filepath.Join(dir, "copy"), s.clock)
	defer c.in.Close()
	c.high(0, 4)
	kept := 0
	for _, l := range c.fetch(9) {
		if l.Attempt == 2 {
			kept++
		}
	}
	return kept
}

func TestNewerClaimsLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 1)
	s.takes(1, "1/1")
	s.store.Abandon()
	path := filepath.Join(s.store.Dir(), "claims-0.log")
	b, err := os.ReadFile(path)
	s.must(err)
	const header = 44
	binary.LittleEndian.PutUint32(b[8:], 9)
	binary.LittleEndian.PutUint32(b[header:], crc32.Checksum(b[:header], crc32.MakeTable(crc32.Castagnoli)))
	s.must(os.WriteFile(path, b, 0o600))
	refused(t, s.store.Dir(), rheo.ErrFailed, path, "format 9", "newer release")
}

// The log goes from file to file without losing a claim, and stays small.
func TestClaimsLogTakesTurns(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{MaxAttempts: 1000})
	s.fill(0, 1)
	s.store.LimitClaims(500)
	const attempts = 200
	for i := range attempts {
		s.takes(1, fmt.Sprintf("1/%d", i+1))
		s.clock.Advance(1 << 40)
		if i%50 == 49 {
			s = s.crash()
			s.store.LimitClaims(500)
		}
	}
	s.must(s.in.CreateStream(t.Context(), "t", rheo.StreamConfig{})) // after the last checkpoint
	for _, file := range []string{"claims-0.log", "claims-1.log"} {
		info, err := os.Stat(filepath.Join(s.store.Dir(), file))
		s.must(err)
		if info.Size() > 10_000 {
			t.Fatalf("%s has %d bytes", file, info.Size())
		}
	}
	s = s.crash()
	s.takes(1, fmt.Sprintf("1/%d", attempts+1))
}

// shortFile is a file without room.
type shortFile struct {
	embedded.ClaimsFile
	full *bool
}

func (f shortFile) WriteAt(b []byte, offset int64) (int, error) {
	if !*f.full {
		return f.ClaimsFile.WriteAt(b, offset)
	}
	n, err := f.ClaimsFile.WriteAt(b[:len(b)/2], offset)
	return n, errors.Join(err, syscall.ENOSPC)
}

// A fetch that cannot be recorded hands out nothing and spends no attempt; those
// that come when there is room again find everything as it was.
func TestClaimsLogWithoutRoom(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	s.fill(0, 3)
	full := false
	s.store.OnClaims(func(f embedded.ClaimsFile) embedded.ClaimsFile { return shortFile{f, &full} })
	s.takes(1, "1/1")
	full = true
	for range 10 {
		_, err := s.in.Fetch(t.Context(), "s", "g", rheo.FetchOptions{Max: 9})
		s.fails(err, rheo.ErrFailed)
		s.fails(err, syscall.ENOSPC)
	}
	full = false
	s.takes(1, "2/1")
	s.takes(1, "3/1")
	s = s.crash()
	s.takes(9, "1/2", "2/2", "3/2")
}
