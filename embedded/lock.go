package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

const lockFile = "LOCK"

// errHeld is what tryLock returns if another has the lock.
var errHeld = errors.New("the lock is held")

// dirLock keeps every other process, and every other Open in this one, out of a
// directory. The operating system lets go of it when the process dies.
type dirLock struct{ file *os.File }

// lockDir takes the lock, waiting up to timeout. A holder found there is named in
// the error.
func lockDir(dir string, timeout time.Duration) (*dirLock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, rheo.WrapError(rheo.ErrUnavailable, err, "opening the store in %s", dir)
	}
	if err := waitForLock(f, timeout); err != nil {
		who := holder(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, errHeld) {
			return nil, rheo.Errorf(rheo.ErrUnavailable,
				"the store in %s is in use by %s; close it there first, or use another directory", dir, who)
		}
		return nil, rheo.WrapError(rheo.ErrUnavailable, err, "locking %s", path)
	}
	l := &dirLock{file: f}
	if err := l.sign(); err != nil {
		return nil, rheo.WrapError(rheo.ErrUnavailable, errors.Join(err, l.release()), "writing %s", path)
	}
	return l, nil
}

func waitForLock(f *os.File, timeout time.Duration) error {
	const pause = 20 * time.Millisecond
	deadline := time.Now().Add(timeout)
	for {
		err := tryLock(f)
		if !errors.Is(err, errHeld) || time.Until(deadline) <= 0 {
			return err
		}
		<-time.After(pause)
	}
}

// sign writes down who holds the lock.
func (l *dirLock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt([]byte(text), 0)
	return err
}

// holder reads who signed the lock. A holder that died is never asked for: its
// lock is free.
func holder(f *os.File) string {
	const limit = 1024
	text, err := io.ReadAll(io.NewSectionReader(f, 0, limit))
	who := strings.TrimSpace(string(text))
	if err != nil || who == "" {
		return "another process"
	}
	if strings.HasPrefix(who, fmt.Sprintf("process %d on ", os.Getpid())) {
		return "this process (" + who + ")"
	}
	return who
}

// release gives the lock up. Closing the file would not be enough: a process that
// this one has forked, and that is not another program yet, shares it. The file
// stays: who removed it might remove one that another process has just locked.
func (l *dirLock) release() error {
	err := l.file.Truncate(0)
	unlock(l.file)
	err = errors.Join(err, l.file.Close())
	if err != nil {
		return rheo.WrapError(rheo.ErrFailed, err, "unlocking %s", l.file.Name())
	}
	return nil
}
