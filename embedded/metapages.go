package embedded

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"

	"github.com/rheo-go/rheo"
)

// A bbolt file begins with two meta pages, written by turns: the newer one is the
// database. bbolt itself goes on silently with the older one if the newer one is
// damaged, and so without the last commit; and it does not notice that a file
// was cut until it reads behind the end. So both are checked before it sees them.
//
// A power loss does not damage a meta page: what is in use of it fits in a sector,
// which is written whole or not at all.
const (
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	metaOffset   = 16 // of the meta in its page
	metaSize     = 64
	minPageSize  = 1 << 10
	maxPageSize  = 1 << 24
	metaChecksum = 56 // offset of the checksum in the meta, and what it covers
)

// meta is what matters here of a meta page.
type meta struct {
	pageSize int64
	root     int64 // of the tree of buckets
	pages    int64 // in use: the file must be that long
	tx       uint64
}

func checkMetaPages(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rheo.Errorf(rheo.ErrFailed, "%s is missing; restore it from a backup", path)
	}
	if err != nil {
		return rheo.WrapError(rheo.ErrUnavailable, err, "opening %s", path)
	}
	info, err := f.Stat()
	if err == nil {
		err = checkMetas(f, path, info.Size())
	}
	_ = f.Close() // it was only read
	return err
}

func checkMetas(f *os.File, path string, size int64) error {
	if size == 0 {
		return rheo.Errorf(rheo.ErrFailed, "%s is empty; restore it from a backup", path)
	}
	first, ok := readMeta(f, 0)
	if !ok {
		return rheo.Errorf(rheo.ErrFailed, "%s is damaged in its first meta page, or is no database; restore it from a backup", path)
	}
	second, ok := readMeta(f, first.pageSize)
	if !ok || second.pageSize != first.pageSize || second.tx != first.tx+1 && first.tx != second.tx+1 {
		return rheo.Errorf(rheo.ErrFailed,
			"%s is damaged in its second meta page, and may lack its last commit; restore it from a backup", path)
	}
	if need := max(first.pages, second.pages) * first.pageSize; size < need {
		return rheo.Errorf(rheo.ErrFailed, "%s was cut: it has %d bytes and needs %d; restore it from a backup", path, size, need)
	}
	newer := first
	if second.tx > first.tx {
		newer = second
	}
	if err := newer.checkTrees(f); err != nil {
		return rheo.WrapError(rheo.ErrFailed, err, "%s is damaged; restore it from a backup", path)
	}
	return nil
}

func readMeta(f *os.File, page int64) (meta, bool) {
	var b [metaSize]byte
	if _, err := f.ReadAt(b[:], page+metaOffset); err != nil {
		return meta{}, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaChecksum])
	m := meta{
		pageSize: int64(binary.NativeEndian.Uint32(b[8:])),
		root:     int64(binary.NativeEndian.Uint64(b[16:])),
		pages:    int64(binary.NativeEndian.Uint64(b[40:])),
		tx:       binary.NativeEndian.Uint64(b[48:]),
	}
	return m, binary.NativeEndian.Uint32(b[0:]) == metaMagic &&
		binary.NativeEndian.Uint32(b[4:]) == metaVersion &&
		binary.NativeEndian.Uint64(b[metaChecksum:]) == sum.Sum64() &&
		m.pageSize >= minPageSize && m.pageSize <= maxPageSize && m.pages > 0
}
