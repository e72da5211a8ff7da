package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/rheo-go/rheo"
)

// claimsLog keeps what fetches have claimed since the ledgers in the database were
// last written. It is written to the operating system before a fetch returns, but
// never synced.
//
// There are two files. When one is full the other goes on, and the committer is
// asked to write every ledger that is ahead of the database: then the full one is
// not needed any more, and is emptied.
//
// Records enter the buffer under the lock of the ledger that they change, and the
// buffer is written in order, so the log has the changes of a ledger in order and
// without gaps. What could not be written stays for the next attempt, for that
// reason.
type claimsLog struct {
	paths [2]string
	store storeID
	limit int64 // of a file's size: then the other goes on
	// full asks for a checkpoint: that every ledger is written, and the file that
	// is not active emptied. It must not wait.
	full func()
	// lastTx returns the number of the database's last commit.
	lastTx func() (int, error)

	mu       sync.Mutex // may be taken under a ledger's; never held over I/O
	buffer   []byte
	appended int64 // position behind the buffer, counted since Open

	writing sync.Mutex // held over I/O
	pending []byte     // taken from the buffer, but not written
	taken   int64      // position behind pending
	written int64      // position up to which all is written
	files   [2]claimsFile
	active  int
	turn    uint64 // counts the switches, for good
	spare   bool   // the file that is not active is empty
	asked   bool   // for a checkpoint that has not begun
	failed  atomic.Bool
}

// claimsFile is one of the two files.
type claimsFile struct {
	osFile
	size int64 // of what is valid in it
}

// osFile is what the log needs of an *os.File.
type osFile interface {
	WriteAt(b []byte, offset int64) (int, error)
	Truncate(size int64) error
	Close() error
}

// maxClaimsFile is the limit of a file, but for tests.
const maxClaimsFile = 4 << 20

// A claims file begins with a header: magic, format, store, which turn it is of the
// two files, the database's last commit when the file was begun, and the CRC-32C
// of that. All numbers are little endian.
const (
	claimsMagic   = "RHEOCLMS"
	claimsVersion = 1
	claimsHeader  = 8 + 4 + len(storeID{}) + 8 + 8 + 4
)

func claimsPaths(dir string) [2]string {
	return [2]string{filepath.Join(dir, "claims-0.log"), filepath.Join(dir, "claims-1.log")}
}

// openClaimsLog begins anew: what the files held has been applied.
func openClaimsLog(dir string, store storeID, turn uint64, lastTx func() (int, error)) (*claimsLog, error) {
	l := &claimsLog{paths: claimsPaths(dir), store: store, limit: maxClaimsFile, turn: turn, lastTx: lastTx, spare: true}
	for i, path := range l.paths {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, rheo.WrapError(rheo.ErrUnavailable, errors.Join(err, l.close()), "opening %s", path)
		}
		l.files[i].osFile = f
	}
	return l, nil
}

// append adds a record, and returns the position to flush to.
func (l *claimsLog) append(c *claim) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.buffer)
	l.buffer = appendClaim(l.buffer, c)
	l.appended += int64(len(l.buffer) - before)
	return l.appended
}

// flush returns when all up to the position has been written. Who comes while
// another writes finds, as a rule, that its records went with the next write of
// somebody else's.
func (l *claimsLog) flush(position int64) error {
	if position == 0 {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.written >= position {
		return nil
	}
	l.take()
	if err := l.write(); err != nil {
		l.failed.Store(true)
		return rheo.WrapError(rheo.ErrFailed, err, "writing to %s; nothing was handed out", l.paths[l.active])
	}
	l.failed.Store(false)
	return nil
}

// retry writes what an earlier flush could not, before more is added to it.
func (l *claimsLog) retry() error {
	if !l.failed.Load() {
		return nil
	}
	l.mu.Lock()
	position := l.appended
	l.mu.Unlock()
	return l.flush(position)
}

// take moves the buffer to what is to be written. The caller holds writing.
func (l *claimsLog) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.pending, l.buffer = l.buffer, l.pending[:0]
	} else {
		l.pending = append(l.pending, l.buffer...)
		l.buffer = l.buffer[:0]
	}
	l.taken = l.appended
}

// write writes what is pending behind what has been written, over what a write
// that failed may have left there. The caller holds writing.
func (l *claimsLog) write() error {
	if err := l.begin(); err != nil {
		return err
	}
	f := &l.files[l.active]
	if _, err := f.WriteAt(l.pending, f.size); err != nil {
		return err
	}
	f.size += int64(len(l.pending))
	l.pending, l.written = l.pending[:0], l.taken
	return nil
}

// begin makes the active file ready for records. The caller holds writing.
func (l *claimsLog) begin() error {
	if l.files[l.active].size >= l.limit {
		if l.spare {
			l.active, l.spare = 1-l.active, false
			l.turn++
		}
		if !l.asked {
			l.asked = true
			l.full()
		}
	}
	f := &l.files[l.active]
	if f.size > 0 {
		return nil
	}
	header, err := l.header()
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return err
	}
	f.size = int64(len(header))
	return nil
}

func (l *claimsLog) header() ([]byte, error) {
	last, err := l.lastTx()
	if err != nil {
		return nil, err
	}
	h := append(make([]byte, 0, claimsHeader), claimsMagic...)
	h = binary.LittleEndian.AppendUint32(h, claimsVersion)
	h = append(h, l.store[:]...)
	h = binary.LittleEndian.AppendUint64(h, l.turn)
	h = binary.LittleEndian.AppendUint64(h, uint64(last))
	return binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli)), nil
}

// beginCheckpoint returns what to give to endCheckpoint when every ledger, as it
// is from now on, is in the database.
func (l *claimsLog) beginCheckpoint() (turn uint64) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.asked = false
	return l.turn
}

// endCheckpoint empties the file that is not active, if it was not when the
// checkpoint began.
func (l *claimsLog) endCheckpoint(turn uint64) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.turn == turn && !l.spare {
		l.spare = l.files[1-l.active].empty() == nil
	}
}

func (f *claimsFile) empty() error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	f.size = 0
	return nil
}

// clear empties both files, when no claim is needed any more. If that fails, the
// next Open finds claims that are in the database already.
func (l *claimsLog) clear() {
	for i := range l.files {
		_ = l.files[i].empty()
	}
}

func (l *claimsLog) close() error {
	var errs []error
	for i := range l.files {
		if l.files[i].osFile != nil {
			errs = append(errs, l.files[i].Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return rheo.WrapError(rheo.ErrFailed, err, "closing the claims log")
	}
	return nil
}
