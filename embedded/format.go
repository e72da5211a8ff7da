package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rheo-go/rheo"
)

// formatFile is written after the database is complete, and never again: where it
// is, there was a store.
const (
	formatFile    = "FORMAT"
	formatVersion = 1
	formatText    = "rheo embedded store, format %d\n"
)

// readFormat reports whether the directory is marked as a store of a format that
// this release knows.
func readFormat(dir string) (marked bool, err error) {
	path := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, rheo.WrapError(rheo.ErrUnavailable, err, "opening the store in %s", dir)
	}
	var version int
	if _, err := fmt.Sscanf(string(text), formatText, &version); err != nil || version < 1 {
		return false, rheo.Errorf(rheo.ErrFailed, "%s is damaged; it should read %q", path, strings.TrimSpace(fmt.Sprintf(formatText, formatVersion)))
	}
	if version > formatVersion {
		return false, rheo.WrapError(rheo.ErrFailed, errNewer, "%s has format %d, and this release reads up to %d", path, version, formatVersion)
	}
	return true, nil
}

// writeFormat marks the directory as a store.
func writeFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	building := path + ".tmp"
	f, err := os.OpenFile(building, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, formatText, formatVersion)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(building, path); err != nil {
		return err
	}
	return syncDir(dir)
}
