package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// bbolt follows its branch pages wherever they lead: one that was damaged may hide
// keys from a search, or lead back to where it came from, and then bbolt goes round
// until the memory is used up. So each branch page is checked before bbolt sees
// it: that its keys lie, in order, between those of its parent, and that no page is
// led to twice. They are one page in a hundred or so. What is in the leaves has
// checksums.

// The kinds of bbolt's pages, and sizes in them.
const (
	branchPage     = 1
	leafPage       = 2
	pageHead       = 16
	pageElement    = 16
	bucketElement  = 1 // flag of a leaf's element
	bucketHeadSize = 16
	maxTreeDepth   = 32
)

var errTree = errors.New("pages lead to wrong places")

// treeCheck walks the trees of a database file.
type treeCheck struct {
	file     io.ReaderAt
	pageSize int64
	pages    int64 // behind the last page in use
	seen     []uint64
}

func (m *meta) checkTrees(file io.ReaderAt) error {
	c := treeCheck{file: file, pageSize: m.pageSize, pages: m.pages, seen: make([]uint64, m.pages/64+1)}
	leaves, err := c.tree(m.root)
	if err != nil {
		return err
	}
	for _, number := range leaves {
		page, err := c.read(number, leafPage)
		if err != nil {
			return err
		}
		for i := range page.count {
			root, err := page.bucket(i)
			if err != nil {
				return err
			}
			if root == 0 { // no bucket, or one that is in the leaf itself
				continue
			}
			if _, err := c.tree(root); err != nil {
				return err
			}
		}
	}
	return nil
}

// tree checks the tree of one bucket, and returns the numbers of its leaves. All of
// them are equally deep.
func (c *treeCheck) tree(root int64) (leaves []int64, err error) {
	depth := 0
	for number := root; ; depth++ {
		page, err := c.read(number, branchPage|leafPage)
		if err != nil {
			return nil, err
		}
		if page.kind == leafPage {
			break
		}
		if depth == maxTreeDepth || page.count == 0 {
			return nil, errTree
		}
		if _, number, err = page.branch(0); err != nil {
			return nil, err
		}
	}
	err = c.subtree(root, depth, nil, nil, &leaves)
	return leaves, err
}

// subtree checks what lies depth levels above the leaves, whose keys must be from
// lower on and less than upper, if those are not nil.
func (c *treeCheck) subtree(number int64, depth int, lower, upper []byte, leaves *[]int64) error {
	if number < 2 || number >= c.pages || c.seen[number/64]&(1<<(number%64)) != 0 {
		return errTree
	}
	c.seen[number/64] |= 1 << (number % 64)
	if depth == 0 {
		*leaves = append(*leaves, number)
		return nil
	}
	page, err := c.read(number, branchPage)
	if err != nil {
		return err
	}
	key, child, err := page.branch(0)
	if err != nil {
		return err
	}
	if bytes.Compare(key, lower) < 0 {
		return errTree
	}
	for i := range page.count {
		next, nextChild := upper, int64(0)
		if i+1 < page.count {
			if next, nextChild, err = page.branch(i + 1); err != nil {
				return err
			}
		}
		if next != nil && bytes.Compare(key, next) >= 0 {
			return errTree
		}
		if err := c.subtree(child, depth-1, key, next, leaves); err != nil {
			return err
		}
		key, child = next, nextChild
	}
	return nil
}

// treePage is a page as read from the file.
type treePage struct {
	b     []byte
	kind  uint16
	count int
}

// read reads a page of one of the kinds.
func (c *treeCheck) read(number int64, kinds uint16) (treePage, error) {
	if number < 2 || number >= c.pages {
		return treePage{}, errTree
	}
	b := make([]byte, c.pageSize)
	if _, err := c.file.ReadAt(b, number*c.pageSize); err != nil {
		return treePage{}, err
	}
	p := treePage{kind: binary.NativeEndian.Uint16(b[8:]), count: int(binary.NativeEndian.Uint16(b[10:]))}
	more := int64(binary.NativeEndian.Uint32(b[12:]))
	if int64(binary.NativeEndian.Uint64(b)) != number || p.kind&kinds == 0 || p.kind&^kinds != 0 || more >= c.pages-number {
		return treePage{}, fmt.Errorf("%w: page %d is not what it should be", errTree, number)
	}
	if more > 0 && p.kind == branchPage || more > 0 && kinds == leafPage {
		b = make([]byte, (1+more)*c.pageSize)
		if _, err := c.file.ReadAt(b, number*c.pageSize); err != nil {
			return treePage{}, err
		}
	}
	p.b = b
	return p, nil
}

// branch returns the key and the child of the i-th element of a branch page.
func (p *treePage) branch(i int) (key []byte, child int64, err error) {
	e, ok := cut(p.b, pageHead+i*pageElement, pageElement)
	if !ok || i >= p.count {
		return nil, 0, errTree
	}
	position, size := int(binary.NativeEndian.Uint32(e)), int(binary.NativeEndian.Uint32(e[4:]))
	if key, ok = cut(p.b, pageHead+i*pageElement+position, size); !ok {
		return nil, 0, errTree
	}
	return key, int64(binary.NativeEndian.Uint64(e[8:])), nil
}

// bucket returns the root of the bucket that is the i-th element of a leaf, or 0.
func (p *treePage) bucket(i int) (root int64, err error) {
	e, ok := cut(p.b, pageHead+i*pageElement, pageElement)
	if !ok {
		return 0, errTree
	}
	if binary.NativeEndian.Uint32(e)&bucketElement == 0 {
		return 0, nil
	}
	key := int(binary.NativeEndian.Uint32(e[4:])) + int(binary.NativeEndian.Uint32(e[8:]))
	value, ok := cut(p.b, pageHead+i*pageElement+key, int(binary.NativeEndian.Uint32(e[12:]))) // bbolt copies it
	if !ok || len(value) < bucketHeadSize {
		return 0, errTree
	}
	if root = int64(binary.NativeEndian.Uint64(value)); root == 0 {
		return 0, checkInlinePage(value[bucketHeadSize:])
	}
	return root, nil
}

// checkInlinePage checks the page of a bucket so small that it has none of its own.
func checkInlinePage(b []byte) error {
	head, ok := cut(b, 0, pageHead)
	if !ok || binary.NativeEndian.Uint16(head[8:]) != leafPage {
		return errTree
	}
	for i := range int(binary.NativeEndian.Uint16(head[10:])) {
		at := pageHead + i*pageElement
		e, ok := cut(b, at, pageElement)
		if !ok {
			return errTree
		}
		size := int(binary.NativeEndian.Uint32(e[8:])) + int(binary.NativeEndian.Uint32(e[12:]))
		if _, ok := cut(b, at+int(binary.NativeEndian.Uint32(e[4:])), size); !ok {
			return errTree
		}
	}
	return nil
}

// cut returns n bytes from an offset on, if they are there.
func cut(b []byte, offset, n int) ([]byte, bool) {
	if offset < 0 || n < 0 || offset > len(b) || n > len(b)-offset {
		return nil, false
	}
	return b[offset : offset+n : offset+n], true
}
