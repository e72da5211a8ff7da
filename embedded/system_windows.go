package embedded

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// initialMmap is 0: here the file would take all of it.
const initialMmap = 0

// lockOffset lies behind any text, which another process must be able to read.
const lockOffset = 1 << 30

func tryLock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

// unlock does nothing: closing the file unlocks it.
func unlock(*os.File) {}

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }

// isDiskFull tells errors that pass when there is room again from those that say
// nothing good about the disk.
func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
