package archtest

import (
	"encoding/json"
	"fmt"
	"go/version"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is what a go.mod says.
type module struct {
	Dir     string // from the root, with slashes; "." is the root
	Path    string
	Go      string
	Require map[string]string // module path → version
	Replace map[string]string // module path → directory, from Dir
}

// workspace is what go.work says.
type workspace struct {
	Go      string
	Use     []string          // directories, from the root
	Replace map[string]string // "path version" → directory, from the root
}

// modFile is what `go mod edit -json` and `go work edit -json` print.
type modFile struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
	Use []struct{ DiskPath string }
}

// readModFile has the go command read a go.mod (kind "mod") or a go.work (kind "work").
func readModFile(t *testing.T, kind, file string) modFile {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", kind, "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var f modFile
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

// readModules reads every go.mod under root. The root's own comes first.
func readModules(t *testing.T, root string) []module {
	t.Helper()
	var modules []module
	for _, file := range findFiles(t, root, func(name string) bool { return name == "go.mod" }) {
		f := readModFile(t, "mod", filepath.Join(root, file))
		m := module{
			Dir: path.Dir(file), Path: f.Module.Path, Go: f.Go,
			Require: map[string]string{}, Replace: map[string]string{},
		}
		for _, r := range f.Require {
			m.Require[r.Path] = r.Version
		}
		for _, r := range f.Replace {
			m.Replace[r.Old.Path] = path.Clean(r.New.Path)
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Dir, b.Dir) })
	return modules
}

func readWorkspace(t *testing.T, root string) workspace {
	t.Helper()
	f := readModFile(t, "work", filepath.Join(root, "go.work"))
	work := workspace{Go: f.Go, Replace: map[string]string{}}
	for _, u := range f.Use {
		work.Use = append(work.Use, path.Clean(u.DiskPath))
	}
	for _, r := range f.Replace {
		work.Replace[r.Old.Path+" "+r.Old.Version] = path.Clean(r.New.Path)
	}
	return work
}

// servesProject says of a module that it is for this project's own work: go.work does not use it, so that the first
// command on a fresh machine does not fetch what it needs, and no user depends on it.
func servesProject(dir string) bool {
	return slices.Contains([]string{"bench", "internal"}, firstElement(dir))
}

// moduleFaults says what is wrong with the modules' files. modules[0] is the root.
func moduleFaults(modules []module, work workspace) []string {
	var faults []string
	report := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	root, dirs := modules[0], map[string]string{} // module path → directory
	for _, m := range modules {
		dirs[m.Path] = m.Dir
	}
	if highest := highestGo(modules); work.Go != highest {
		report("go.work: go %s, the highest of its modules is go %s", work.Go, highest)
	}
	for _, m := range modules {
		if want := path.Join(corePath, m.Dir); m.Path != want {
			report("%s/go.mod: module %s, want %s", m.Dir, m.Path, want)
		}
		if !mayAskForGo(m, root) {
			report("%s/go.mod: go %s, the root says go %s", m.Dir, m.Go, root.Go)
		}
		if want := !servesProject(m.Dir); want != slices.Contains(work.Use, m.Dir) {
			report("go.work: uses ./%s is %t, want %t", m.Dir, !want, want)
		}
		for _, fault := range replaceFaults(m, dirs, work) {
			report("%s", fault)
		}
	}
	return faults
}

// isCommand says of a module that nobody imports it: it is installed.
func isCommand(dir string) bool { return firstElement(dir) == "cmd" }

// mayAskForGo says whether a module's Go version is right. The libraries ask for what the root does. The CLI may ask for
// a later one, if a driver needs it; what the project's own modules require sets what they need.
func mayAskForGo(m, root module) bool {
	switch {
	case servesProject(m.Dir):
		return true
	case isCommand(m.Dir):
		return compareGo(m.Go, root.Go) >= 0
	}
	return m.Go == root.Go
}

// highestGo is the highest Go version of the modules that go.work is to use: the go command takes no lower one.
func highestGo(modules []module) string {
	highest := modules[0].Go
	for _, m := range modules {
		if !servesProject(m.Dir) && compareGo(m.Go, highest) > 0 {
			highest = m.Go
		}
	}
	return highest
}

func compareGo(a, b string) int { return version.Compare("go"+a, "go"+b) }

// replaceFaults says what is wrong with how a module finds the others of the repository. A library's go.mod replaces
// them by their directories, which its users' builds do not see. The CLI's may not, or `go install …@version` refuses it:
// there go.work does, version by version, else the go command asks the network for a version that is not out yet.
func replaceFaults(m module, dirs map[string]string, work workspace) []string {
	var faults []string
	if isCommand(m.Dir) && len(m.Replace) > 0 {
		faults = append(faults, fmt.Sprintf("%s/go.mod: has replace lines, so `go install %s@version` refuses it", m.Dir, m.Path))
	}
	for _, required := range slices.Sorted(maps.Keys(m.Require)) {
		dir, ours := dirs[required]
		if !ours {
			continue
		}
		version := m.Require[required]
		switch want := replacement(m.Dir, dir); {
		case isCommand(m.Dir) && work.Replace[required+" "+version] != dir:
			faults = append(faults, fmt.Sprintf("go.work: lacks `replace %s %s => %s`", required, version, replacement(".", dir)))
		case !isCommand(m.Dir) && m.Replace[required] != path.Clean(want):
			faults = append(faults, fmt.Sprintf("%s/go.mod: lacks `replace %s => %s`", m.Dir, required, want))
		}
	}
	return faults
}

// replacement is how a go.mod or go.work in directory from names the module in directory to: "../..".
func replacement(from, to string) string {
	rel, err := filepath.Rel(filepath.FromSlash(from), filepath.FromSlash(to))
	if err != nil {
		return to
	}
	if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, ".") {
		rel = "./" + rel
	}
	return rel
}

func TestModuleFiles(t *testing.T) {
	t.Parallel()
	root := repositoryRoot(t)
	for _, fault := range moduleFaults(readModules(t, root), readWorkspace(t, root)) {
		t.Error(fault)
	}
}

func TestModuleFaults(t *testing.T) {
	t.Parallel()
	const version, embeddedPath = "v0.0.0", corePath + "/embedded"
	type repository struct {
		root, bench, command, embedded, tools module
		work                                  workspace
	}
	needsCore := func(dir string) module {
		return module{
			Dir: dir, Path: corePath + "/" + dir, Go: "1.25.0",
			Require: map[string]string{corePath: version, "example.com/x": "v1.0.0"},
			Replace: map[string]string{corePath: ".."},
		}
	}
	tests := map[string]struct {
		spoil func(*repository)
		want  string
	}{
		"sound":          {func(*repository) {}, ""},
		"module path":    {func(r *repository) { r.bench.Path = "example.com/bench" }, "module example.com/bench"},
		"go version":     {func(r *repository) { r.embedded.Go, r.work.Go = "1.26.0", "1.26.0" }, "embedded/go.mod: go 1.26.0, the root says go 1.25.0"},
		"CLI's is later": {func(r *repository) { r.command.Go, r.work.Go = "1.26.0", "1.26.0" }, ""},
		"CLI's is lower": {func(r *repository) { r.command.Go = "1.24.0" }, "go 1.24.0, the root says go 1.25.0"},
		"go.work's":      {func(r *repository) { r.work.Go = "1.26.0" }, "go.work: go 1.26.0, the highest of its modules is go 1.25.0"},
		"go.work behind": {func(r *repository) { r.command.Go = "1.26.0" }, "go.work: go 1.25.0, the highest of its modules is go 1.26.0"},
		"no replace":     {func(r *repository) { r.embedded.Replace = nil }, "lacks `replace " + corePath + " => ..`"},
		"CLI's replace":  {func(r *repository) { r.command.Replace = map[string]string{corePath: ".."} }, "refuses it"},
		"not replaced":   {func(r *repository) { r.work.Replace = nil }, "lacks `replace " + embeddedPath + " v0.0.0 => ./embedded`"},
		"not used":       {func(r *repository) { r.work.Use = []string{".", "cmd/rheo"} }, "uses ./embedded is false, want true"},
		"bench is used":  {func(r *repository) { r.work.Use = append(r.work.Use, "bench") }, "uses ./bench is true, want false"},
		"tools are used": {func(r *repository) { r.work.Use = append(r.work.Use, "internal/tools") }, "uses ./internal/tools is true"},
	}
	for name, tt := range tests {
		r := repository{
			root:     module{Dir: ".", Path: corePath, Go: "1.25.0"},
			bench:    needsCore("bench"),
			embedded: needsCore("embedded"),
			command: module{
				Dir: "cmd/rheo", Path: corePath + "/cmd/rheo", Go: "1.25.0", Require: map[string]string{embeddedPath: version},
			},
			tools: module{Dir: "internal/tools", Path: corePath + "/internal/tools", Go: "1.26.0"},
			work: workspace{
				Go: "1.25.0", Use: []string{".", "cmd/rheo", "embedded"},
				Replace: map[string]string{embeddedPath + " " + version: "embedded"},
			},
		}
		tt.spoil(&r)
		faults := moduleFaults([]module{r.root, r.bench, r.command, r.embedded, r.tools}, r.work)
		if tt.want == "" && len(faults) > 0 || tt.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], tt.want)) {
			t.Errorf("%s: faults %q, want %q", name, faults, tt.want)
		}
	}
	if got := replacement("internal/sqlitetest", "sqlite"); got != "../../sqlite" {
		t.Errorf("replacement = %s", got)
	}
}
