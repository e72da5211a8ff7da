package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a kind of package; a directory's first element gives it.
type layer string

const (
	core        layer = "core"        // package rheo
	ledger      layer = "ledger"      // the delivery state machine
	shared      layer = "shared"      // what backends have in common
	internal    layer = "internal"    // the root module's own
	suite       layer = "suite"       // backendtest
	backend     layer = "backend"     // one store
	integration layer = "integration" // one other library, or the dashboard
	command     layer = "command"     // the CLI
	example     layer = "example"
	bench       layer = "bench"
)

var layerOf = map[string]layer{
	".":           core,
	"ledger":      ledger,
	"delivery":    shared,
	"scan":        shared,
	"wake":        shared,
	"lifetime":    shared,
	"internal":    internal,
	"backendtest": suite,

	"memory":   backend,
	"embedded": backend,
	"sqlite":   backend,
	"postgres": backend,
	"mongo":    backend,
	"redis":    backend,

	"rheosuture":    integration,
	"rheowatermill": integration,
	"rheootel":      integration,
	"dashboard":     integration,

	"cmd":      command,
	"examples": example,
	"bench":    bench,
}

// mayImport says what the code of a layer, tests apart, may import of this repository beyond its own directory.
var mayImport = map[layer][]layer{
	core:        {internal},
	ledger:      {},
	shared:      {core, ledger, shared, internal},
	internal:    {core, ledger, shared, internal},
	suite:       {core, ledger, shared, internal},
	backend:     {core, ledger, shared, internal},
	integration: {core},
	command:     {core, backend, integration},
	example:     {core, backend, integration},
	bench:       {core, ledger, shared, internal, suite, backend, integration},
}

// testLibraries are what the root module's tests may import from elsewhere. Its code imports nothing from elsewhere.
var testLibraries = []string{
	"go.uber.org/goleak",
	"pgregory.net/rapid",
	"github.com/anishathalye/porcupine",
	"github.com/google/go-cmp",
}

// importEdge is one import: of To, by a file in the directory Dir.
type importEdge struct {
	Dir  string // from the root; "." is package rheo
	Test bool   // by a _test.go file
	To   string
}

// importFault says what is wrong with an import, or nothing. modules lists the directories that hold a go.mod.
func importFault(e importEdge, modules []string) string {
	from := layerOf[firstElement(e.Dir)]
	if from == "" {
		return fmt.Sprintf("%s has no layer: give it one in layerOf", e.Dir)
	}
	inRoot := moduleOf(e.Dir, modules) == "."
	to, ours := repositoryDir(e.To)
	switch {
	case !ours && strings.Contains(firstElement(e.To), "."):
		if inRoot && !(e.Test && inOne(e.To, testLibraries)) {
			return "the root module stands on the standard library alone"
		}
		return ""
	case !ours:
		return ""
	}
	target := layerOf[firstElement(to)]
	same := firstElement(e.Dir) == firstElement(to)
	switch {
	case target == "":
		return fmt.Sprintf("%s has no layer: give it one in layerOf", to)
	case inRoot && moduleOf(to, modules) != ".":
		return "the root module imports none of the others"
	case from == backend && target == backend && !same:
		return "no backend imports another"
	case e.Test:
		return ""
	case target == internal && !inRoot && moduleOf(to, modules) == "." && !servesProject(e.Dir):
		return "the root's internal packages are for the root module: another module's version may differ"
	case !same && !slices.Contains(mayImport[from], target):
		return fmt.Sprintf("layer %s does not import layer %s", from, target)
	}
	return ""
}

// firstElement is the part of a path before its first slash.
func firstElement(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

// repositoryDir turns an import path of this repository into its directory.
func repositoryDir(importPath string) (dir string, ours bool) {
	if importPath == corePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, corePath+"/")
}

// moduleOf is the innermost of the modules' directories that dir lies in.
func moduleOf(dir string, modules []string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.Contains(modules, dir) {
			return dir
		}
	}
	return "."
}

// inOne says whether an import path is one of modules or lies in one.
func inOne(importPath string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return importPath == m || strings.HasPrefix(importPath, m+"/")
	})
}

func TestImportDirection(t *testing.T) {
	t.Parallel()
	root := repositoryRoot(t)
	var modules []string
	for _, m := range readModules(t, root) {
		modules = append(modules, m.Dir)
	}
	checked := 0
	for _, source := range readSources(t, root) {
		for _, to := range source.imports(t) {
			checked++
			if fault := importFault(importEdge{path.Dir(source.Path), source.Test, to}, modules); fault != "" {
				t.Errorf("%s imports %s: %s", source.Path, to, fault)
			}
		}
	}
	if checked == 0 {
		t.Error("no import found")
	}
}

func TestImportFault(t *testing.T) {
	t.Parallel()
	modules := []string{".", "embedded", "postgres", "rheosuture", "rheowatermill", "cmd/rheo", "bench", "internal/sqlitetest"}
	tests := []struct {
		dir, to string
		test    bool
		want    string // part of the fault; empty where there is none
	}{
		{dir: ".", to: "context"},
		{dir: ".", to: corePath + "/internal/inflight"},
		{dir: ".", to: corePath + "/ledger", want: "layer core does not import layer ledger"},
		{dir: ".", to: corePath + "/memory", want: "layer core does not import layer backend"},
		{dir: ".", to: corePath + "/memory", test: true},
		{dir: ".", to: corePath + "/embedded", test: true, want: "none of the others"},
		{dir: ".", to: "github.com/google/uuid", want: "standard library alone"},
		{dir: ".", to: "go.uber.org/goleak", want: "standard library alone"},
		{dir: ".", to: "go.uber.org/goleak", test: true},
		{dir: ".", to: "github.com/google/go-cmp/cmp", test: true},
		{dir: ".", to: "github.com/google/uuid", test: true, want: "standard library alone"},
		{dir: "ledger", to: "math/rand/v2"},
		{dir: "ledger", to: corePath, want: "layer ledger does not import layer core"},
		{dir: "ledger", to: corePath + "/internal/wake", want: "layer ledger does not import layer internal"},
		{dir: "delivery", to: corePath + "/ledger"},
		{dir: "internal/wake", to: corePath + "/memory", want: "layer internal does not import layer backend"},
		{dir: "backendtest", to: corePath},
		{dir: "backendtest", to: "pgregory.net/rapid", want: "standard library alone"},
		{dir: "memory", to: corePath + "/internal/wake"},
		{dir: "memory", to: corePath + "/backendtest", want: "layer backend does not import layer suite"},
		{dir: "memory", to: corePath + "/backendtest", test: true},
		{dir: "memory", to: corePath + "/sqlite", want: "no backend imports another"},
		{dir: "postgres", to: corePath + "/memory", test: true, want: "no backend imports another"},
		{dir: "postgres", to: corePath + "/postgres/internal/sql"},
		{dir: "postgres", to: corePath + "/internal/wake", want: "internal packages are for the root module"},
		{dir: "postgres", to: corePath + "/internal/testservers", test: true},
		{dir: "postgres", to: "github.com/jackc/pgx/v5"},
		{dir: "rheosuture", to: corePath},
		{dir: "rheosuture", to: corePath + "/memory", want: "layer integration does not import layer backend"},
		{dir: "rheosuture", to: corePath + "/memory", test: true},
		{dir: "cmd/rheo", to: corePath + "/embedded"},
		{dir: "cmd/rheo", to: corePath + "/cmd/rheo/internal/demo"},
		{dir: "cmd/rheo", to: corePath + "/internal/wake", want: "internal packages are for the root module"},
		{dir: "dashboard", to: corePath + "/memory", want: "layer integration does not import layer backend"},
		{dir: "bench", to: corePath + "/embedded"},
		{dir: "bench/cmd/compare", to: corePath + "/internal/testservers"},
		{dir: "internal/sqlitetest", to: corePath + "/sqlite", test: true},
		{dir: "internal/sqlitetest", to: "modernc.org/sqlite", test: true},
		{dir: "internal/wake", to: corePath + "/internal/sqlitetest", want: "none of the others"},
		{dir: "gizmo", to: "context", want: "gizmo has no layer"},
		{dir: "memory", to: corePath + "/gizmo", want: "gizmo has no layer"},
	}
	for _, tt := range tests {
		got := importFault(importEdge{tt.dir, tt.test, tt.to}, modules)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s (test: %t): fault %q, want %q", tt.dir, tt.to, tt.test, got, tt.want)
		}
	}
}
