package embedded

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rheo-go/rheo"
)

// Open opens the store in dir, and makes the directory and the store if there is
// none. Every lease that was held when the store was last open is expired.
//
// While it is open no one else, in this process or another, can open it: that is
// [rheo.ErrUnavailable], and the message names the holder. A store of which a file
// is missing or damaged is [rheo.ErrFailed]; Open never puts a new one in its
// place.
func Open(dir string, opts *Options) (*Backend, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if dir == "" {
		return nil, rheo.Errorf(rheo.ErrInvalid, "the directory must be named")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrInvalid, err, "the directory %q", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, rheo.WrapError(rheo.ErrUnavailable, err, "making the directory %s", dir)
	}
	lock, err := lockDir(dir, o.OpenTimeout)
	if err != nil {
		return nil, err
	}
	b := &Backend{dir: dir, clock: o.Clock, lock: lock}
	if b.clock == nil {
		b.clock = rheo.SystemClock()
	}
	if err := b.open(); err != nil {
		if b.db != nil {
			err = errors.Join(err, b.db.close())
		}
		return nil, errors.Join(err, lock.release())
	}
	return b, nil
}

func (b *Backend) open() error {
	marked, err := ensureStore(b.dir)
	if err != nil {
		return err
	}
	if b.db, err = openDatabase(filepath.Join(b.dir, dbFile)); err != nil {
		return err
	}
	r := &recovery{b: b, streams: make(map[uint32]*stream), groups: make(map[uint32]*group)}
	if err := r.load(); err != nil {
		return err
	}
	if !marked {
		if err := writeFormat(b.dir); err != nil {
			return rheo.WrapError(rheo.ErrFailed, err, "marking the store in %s", b.dir)
		}
	}
	b.claims = &claimsLog{spare: true} // until the claims there are in the database
	if r.behind {
		if err := b.checkpoint(); err != nil {
			return err
		}
	}
	b.claims, err = openClaimsLog(b.dir, r.id, r.turn+1, b.db.lastTx)
	if err != nil {
		return err
	}
	b.committer = startCommitter(b)
	b.claims.full = func() {
		// Refused only when Close has begun, which checkpoints anyway.
		_ = b.committer.submit(&request{stage: (*batch).stageCheckpoint, done: make(chan struct{})})
	}
	return nil
}

// ensureStore makes a database, if the directory has none and never had, and
// reports whether it is marked as complete. One that is not was made by a process
// that died before marking it, or has lost its marker; the database itself says
// whether it is one of ours.
func ensureStore(dir string) (marked bool, err error) {
	if marked, err = readFormat(dir); err != nil || marked {
		return marked, err
	}
	path := filepath.Join(dir, dbFile)
	_, err = os.Stat(path)
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, rheo.WrapError(rheo.ErrUnavailable, err, "opening the store in %s", dir)
	case leftovers(dir) != "":
		return false, rheo.Errorf(rheo.ErrFailed, "%s is missing, but %s is there; restore the store from a backup", path, leftovers(dir))
	}
	_ = syncDir(filepath.Dir(dir)) // the directory may be new; the one it is in may not be ours to open
	var id storeID
	_, _ = rand.Read(id[:]) // it never fails
	if err := createDatabase(path, prepareDatabase(id)); err != nil {
		return false, rheo.WrapError(rheo.ErrFailed, err, "making a store in %s", dir)
	}
	return false, nil
}

// leftovers returns the name of a file that only a store has, if there is one.
func leftovers(dir string) string {
	for _, path := range claimsPaths(dir) {
		if _, err := os.Stat(path); err == nil {
			return filepath.Base(path)
		}
	}
	return ""
}
