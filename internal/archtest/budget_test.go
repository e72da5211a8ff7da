package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDependencyBudget builds and runs a project on the core alone, with no way to download anything and nothing
// downloaded before: whatever the core needed beyond the standard library would be missing.
func TestDependencyBudget(t *testing.T) {
	t.Parallel()
	root := repositoryRoot(t)
	project, modcache := t.TempDir(), t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(project, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = project
		cmd.Env = append(os.Environ(),
			"GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local", "GOMODCACHE="+modcache)
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, exit.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}

	write("go.mod", fmt.Sprintf("module example.com/host\n\ngo 1.25.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", corePath, root))
	write("main.go", fmt.Sprintf(`package main

import (
	"fmt"

	_ "%s"
	_ "%[1]s/ledger"
	_ "%[1]s/memory"
)

func main() { fmt.Print("runs") }
`, corePath))

	if got := run("run", "."); got != "runs" {
		t.Errorf("the project printed %q", got)
	}
	for pkg := range strings.Lines(run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		pkg = strings.TrimSpace(pkg)
		if pkg != "" && pkg != "example.com/host" && !inOne(pkg, []string{corePath}) {
			t.Errorf("the core needs %s", pkg)
		}
	}
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal([]byte(run("mod", "edit", "-json")), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Require) != 1 || mod.Require[0].Path != corePath {
		t.Errorf("go.mod came to require %v", mod.Require)
	}
	if sum, err := os.ReadFile(filepath.Join(project, "go.sum")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a go.sum was needed (%v):\n%s", err, sum)
	}
	if downloads, err := os.ReadDir(filepath.Join(modcache, "cache", "download")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was downloaded (%v): %v", err, downloads)
	}
}
