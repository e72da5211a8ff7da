package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk of that many bytes, or skips the test where that is not
// allowed.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return dir
}

// A full disk makes writes fail for as long as it is full, and nothing else: what
// failed left nothing, and what comes after goes on where it was.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 4<<20)
	s := openStore(t, dir, backendtest.NewClock())
	s.must(s.in.CreateStream(t.Context(), "s", rheo.StreamConfig{}))
	s.must(s.in.CreateGroup(t.Context(), "s", "g", rheo.GroupConfig{}))
	s.fill(0, 50)
	stuffing := dir + "/stuffing"
	for round := range 5 {
		stuff(t, stuffing)
		appended := s.appendUntilFull()
		l := s.fetchIfPossible()
		s.must(os.Remove(stuffing))
		s.high(0, appended)
		s.must(s.in.Ack(t.Context(), l...))
		s.fill(0, 10)
		s.high(0, appended+10)
		if round%2 == 0 {
			s = s.crash()
			s.high(0, appended+10)
		}
		s.must(s.in.Ack(t.Context(), s.fetch(1000)...))
	}
	s.must(s.in.Close())
}

// stuff fills the disk.
func stuff(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// appendUntilFull appends until that fails, and then some, and returns the high
// watermark.
func (s *testStore) appendUntilFull() int64 {
	s.Helper()
	failures := 0
	for failures < 20 {
		info, err := s.in.StreamInfo(s.Context(), "s")
		s.must(err)
		high := info.HighWatermarks[0]
		var events []rheo.Event
		for i := range int64(100) {
			events = append(events, rheo.Event{ID: fmt.Sprintf("0-%d", high+i+1), Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", 100))})
		}
		if _, err = s.in.Append(s.Context(), "s", events...); err != nil {
			s.fails(err, rheo.ErrFailed)
			s.fails(err, unix.ENOSPC)
			s.high(0, high)
			failures++
		}
	}
	info, err := s.in.StreamInfo(s.Context(), "s")
	s.must(err)
	return info.HighWatermarks[0]
}

// fetchIfPossible fetches on a full disk: that works if the claims log has room in
// the last page that it has.
func (s *testStore) fetchIfPossible() []*rheo.Lease {
	s.Helper()
	leases, err := s.in.Fetch(s.Context(), "s", "g", rheo.FetchOptions{Max: 5})
	if err != nil {
		s.fails(err, rheo.ErrFailed)
		s.fails(err, unix.ENOSPC)
	}
	return leases
}
