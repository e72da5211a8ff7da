// Package archtest holds the repository to its architecture: which package may import which, what a user of the core
// has to download, how the modules stand to each other, and what every package's tests and every committed file owe.
package archtest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// corePath is the import path of package rheo and the module path of the root.
const corePath = "github.com/rheo-go/rheo"

// sourceFile is a Go file's head and syntax.
type sourceFile struct {
	Path   string // from the root, with slashes
	Test   bool
	Syntax *ast.File
}

// repositoryRoot finds the repository this package lies in.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("not in a checkout of the repository: it has no go.work")
	}
	return root
}

// findFiles lists the files under root that want accepts, leaving out what neither Go nor this project counts as its
// own: hidden folders, testdata and node_modules.
func findFiles(t *testing.T, root string, want func(name string) bool) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if want(name) {
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readSources parses every Go file under root, whatever its build constraints.
func readSources(t *testing.T, root string) []sourceFile {
	t.Helper()
	var sources []sourceFile
	for _, file := range findFiles(t, root, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, sourceFile{Path: file, Test: strings.HasSuffix(file, "_test.go"), Syntax: syntax})
	}
	return sources
}

// imports lists the paths that the file imports.
func (s sourceFile) imports(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, spec := range s.Syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", s.Path, err)
		}
		paths = append(paths, p)
	}
	return paths
}

// mentions says whether the syntax under node names the selector pkg.name, as in time.Sleep.
func mentions(node ast.Node, pkg, name string) bool {
	found := false
	ast.Inspect(node, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == name {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}
