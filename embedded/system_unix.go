//go:build unix

package embedded

import (
	"errors"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// initialMmap is how much address space the database takes at once: while the
// file is shorter, growing it waits for no reader. It takes no disk.
const initialMmap = 1 << 30 * (bits.UintSize / 64)

func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}

// unlock frees a file that is locked.
func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// syncDir makes a directory's entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isDiskFull tells errors that pass when there is room again from those that say
// nothing good about the disk.
func isDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
