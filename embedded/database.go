package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
	"go.etcd.io/bbolt"
)

const dbFile = "rheo.db"

// database is bbolt, with whatever it does about a damaged file turned into
// errors. bbolt trusts its pages: it panics on one that makes no sense to it, and
// reads behind the end of a file that was cut, which the operating system answers
// with a fault.
//
// Its methods may be called at the same time, but update, which belongs to the
// committer.
type database struct {
	path string
	bolt *bbolt.DB
	file *os.File // bbolt's own
	// commit is (*bbolt.Tx).Commit, but for tests.
	commit func(*bbolt.Tx) error
	// broken is why the database takes no more writes.
	broken atomic.Pointer[rheo.Error]
	// stuck is set if bbolt is in a state in which closing it would never end.
	stuck bool
}

// openDatabase opens a database that exists, and is whole as far as its meta pages
// tell.
func openDatabase(path string) (*database, error) {
	if err := checkMetaPages(path); err != nil {
		return nil, err
	}
	return openBolt(path, os.O_RDWR)
}

func openBolt(path string, flag int) (d *database, err error) {
	const lockTimeout = time.Second // nobody who uses this package holds it
	d = &database{path: path, commit: (*bbolt.Tx).Commit}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if panicked := recover(); panicked != nil {
			err = d.recovered(panicked, "opening")
		}
		if err != nil {
			d.abandon()
			d, err = nil, rheo.WrapError(rheo.ErrFailed, innermost(err), "opening %s", path)
		}
	}()
	d.bolt, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockTimeout,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: initialMmap,
		NoStatistics:    true,
		OpenFile: func(name string, _ int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			d.file = f
			return f, err
		},
	})
	return d, err
}

// abandon lets go of the file after bbolt failed to open it.
func (d *database) abandon() {
	if d.file != nil {
		unlock(d.file)
		_ = d.file.Close() // bbolt has closed it already, unless it panicked
	}
}

// recovered turns a panic into an error, and ends all writing:
// what bbolt holds in memory cannot be relied on any more.
func (d *database) recovered(panicked any, doing string) error {
	cause, ok := panicked.(error)
	if !ok {
		cause = fmt.Errorf("%v", panicked)
	}
	return d.fail(&rheo.Error{
		Kind:   rheo.ErrFailed,
		Detail: fmt.Sprintf("%s is damaged (found when %s); no more is written to it: restore the store from a backup", d.path, doing),
		Cause:  cause,
	})
}

// innermost returns what bbolt said, without the words that recovered put around
// it, for those who know better where that was.
func innermost(err error) error {
	var known *rheo.Error
	if errors.As(err, &known) && known.Cause != nil {
		return known.Cause
	}
	return err
}

// damaged says where in the database something is wrong.
func (d *database) damaged(cause error, format string, args ...any) error {
	where := fmt.Sprintf(format, args...)
	if errors.Is(cause, errNewer) || errors.Is(cause, ledger.ErrVersion) {
		return rheo.WrapError(rheo.ErrFailed, cause, "%s cannot be read by this release, in %s", d.path, where)
	}
	return rheo.WrapError(rheo.ErrFailed, innermost(cause), "%s is damaged, in %s; restore it from a backup", d.path, where)
}

// fail makes the database refuse writes from now on.
func (d *database) fail(err *rheo.Error) error {
	d.broken.CompareAndSwap(nil, err)
	return err
}

// refusal returns why no write is taken, or nil.
func (d *database) refusal() error {
	if why := d.broken.Load(); why != nil {
		return rheo.WrapError(rheo.ErrFailed, why, "nothing is written to %s any more", d.path)
	}
	return nil
}

// view runs f in a read transaction. f must be short, and must not wait for a
// commit: the file cannot grow beyond its mapping while a reader is there.
func (d *database) view(f func(*bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if panicked := recover(); panicked != nil {
			err = d.recovered(panicked, "reading")
		}
	}()
	return d.bolt.View(f)
}

// lastTx returns the number of the last commit.
func (d *database) lastTx() (id int, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return nil
	})
	return id, err
}

// update runs f in a write transaction and commits what it did, if it says that
// it did something. The error is ErrFailed if nothing was changed, and
// ErrAmbiguous if that is not known.
func (d *database) update(f func(*bbolt.Tx) (changed bool, err error)) (err error) {
	if err := d.refusal(); err != nil {
		return err
	}
	var tx *bbolt.Tx
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if panicked := recover(); panicked != nil {
			err = d.recovered(panicked, "writing")
			d.rollBack(tx)
		}
	}()
	if tx, err = d.bolt.Begin(true); err != nil {
		return d.fail(&rheo.Error{Kind: rheo.ErrFailed, Detail: "beginning to write to " + d.path, Cause: err})
	}
	id := tx.ID()
	changed, err := f(tx)
	if err != nil || !changed {
		return errors.Join(err, tx.Rollback())
	}
	if err := d.commit(tx); err != nil {
		return d.failedCommit(id, err)
	}
	return nil
}

// failedCommit finds out what a failed commit has left behind. bbolt writes the
// new pages first, where nothing refers to them, and last the page that makes
// them the database; so long as that one has not been written, nothing happened.
func (d *database) failedCommit(id int, cause error) error {
	last, err := d.lastTx()
	switch {
	case err != nil:
		return d.fail(&rheo.Error{Kind: rheo.ErrAmbiguous, Detail: "writing to " + d.path + "; close the store and open it again", Cause: errors.Join(cause, err)})
	case last >= id:
		return d.fail(&rheo.Error{Kind: rheo.ErrAmbiguous, Detail: d.path + " was written but not synced; close the store and open it again", Cause: cause})
	case errors.Is(cause, syscall.EIO):
		// After this nobody can tell what the operating system will read back.
		return d.fail(&rheo.Error{Kind: rheo.ErrFailed, Detail: "writing to " + d.path + "; close the store and open it again", Cause: cause})
	case isDiskFull(cause):
		return rheo.WrapError(rheo.ErrFailed, cause, "no room to write to %s; nothing was changed", d.path)
	default:
		return rheo.WrapError(rheo.ErrFailed, cause, "writing to %s; nothing was changed", d.path)
	}
}

// rollBack ends a transaction that panicked, if bbolt still can.
func (d *database) rollBack(tx *bbolt.Tx) {
	defer func() {
		if recover() != nil {
			d.stuck = true
		}
	}()
	if tx != nil {
		_ = tx.Rollback() // an error says that it has ended already
	}
}

func (d *database) close() error {
	if d.stuck {
		d.abandon()
		return nil
	}
	if err := d.bolt.Close(); err != nil {
		return rheo.WrapError(rheo.ErrFailed, err, "closing %s", d.path)
	}
	return nil
}

// createDatabase makes a database under another name and gives it its own when it
// is complete: a file of that name is never half made.
func createDatabase(path string, prepare func(*bbolt.Tx) error) error {
	building := path + ".tmp"
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	d, err := openBolt(building, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = d.update(func(tx *bbolt.Tx) (bool, error) { return true, prepare(tx) })
	if err := errors.Join(err, d.close()); err != nil {
		return err
	}
	if err := os.Rename(building, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
