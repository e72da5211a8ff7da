package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packagesWithoutLeakCheck lists the directories that have tests but no TestMain that calls goleak.VerifyTestMain.
// The benchmarks are let off: the peers they measure leave goroutines behind.
func packagesWithoutLeakCheck(sources []sourceFile) []string {
	checked := map[string]bool{}
	for _, source := range sources {
		if dir := path.Dir(source.Path); source.Test && firstElement(dir) != "bench" {
			checked[dir] = checked[dir] || slices.ContainsFunc(source.Syntax.Decls, func(d ast.Decl) bool {
				f, ok := d.(*ast.FuncDecl)
				return ok && f.Recv == nil && f.Name.Name == "TestMain" && mentions(f, "goleak", "VerifyTestMain")
			})
		}
	}
	var missing []string
	for dir, ok := range checked {
		if !ok {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	return missing
}

func TestTestMains(t *testing.T) {
	t.Parallel()
	for _, dir := range packagesWithoutLeakCheck(readSources(t, repositoryRoot(t))) {
		t.Errorf("%s has tests but no TestMain that calls goleak.VerifyTestMain", dir)
	}
}

// sleepers lists the test files that sleep in real time. A file that imports testing/synctest may call time.Sleep,
// since in its bubbles nobody waits; golangci-lint's forbidigo sees to code that is no test.
func sleepers(t *testing.T, sources []sourceFile) []string {
	t.Helper()
	var found []string
	for _, source := range sources {
		if !source.Test || firstElement(source.Path) == "cmd" || slices.Contains(source.imports(t), "testing/synctest") {
			continue
		}
		if mentions(source.Syntax, "time", "Sleep") {
			found = append(found, source.Path)
		}
	}
	return found
}

func TestNoRealSleep(t *testing.T) {
	t.Parallel()
	for _, file := range sleepers(t, readSources(t, repositoryRoot(t))) {
		t.Errorf("%s calls time.Sleep: wait for the condition itself, or use testing/synctest", file)
	}
}

func TestFileRules(t *testing.T) {
	t.Parallel()
	parse := func(file, code string) sourceFile {
		t.Helper()
		syntax, err := parser.ParseFile(token.NewFileSet(), file, "package x\n"+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return sourceFile{Path: file, Test: strings.HasSuffix(file, "_test.go"), Syntax: syntax}
	}
	sources := []sourceFile{
		parse("good/main_test.go", `func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }`),
		parse("good/sleep_test.go", `import "testing/synctest"; func TestX() { synctest.Test(); time.Sleep(1) }`),
		parse("plain/plain.go", `func F() { time.Sleep(1) }`),
		parse("lax/lax_test.go", `func TestMain(m *testing.M) { os.Exit(m.Run()) }`),
		parse("none/none_test.go", `func TestX() { time.Sleep(1); goleak.VerifyTestMain(nil) }`),
		parse("bench/bench_test.go", `func BenchmarkX() {}`),
		parse("cmd/rheo/cmd_test.go", `func TestMain(m *testing.M) { goleak.VerifyTestMain(m); time.Sleep(1) }`),
	}
	if got, want := packagesWithoutLeakCheck(sources), []string{"lax", "none"}; !slices.Equal(got, want) {
		t.Errorf("without leak check: %v, want %v", got, want)
	}
	if got, want := sleepers(t, sources), []string{"none/none_test.go"}; !slices.Equal(got, want) {
		t.Errorf("sleepers: %v, want %v", got, want)
	}
}

// banned matches what no committed file may hold: a path of the machine that this was written on, or the address of a
// package registry. (It is put together from pieces, so that this file does not hold it either.)
var banned = func() *regexp.Regexp {
	hosts := []string{"proxy.golang", "sum.golang", "deb.debian", "security.debian", "registry.npmjs"}
	for i, host := range hosts {
		hosts[i] = regexp.QuoteMeta(host + ".org")
	}
	return regexp.MustCompile(`(?:^|[^\w.)}~-])/` + `work/|` + strings.Join(hosts, "|"))
}()

// bannedWords lists what is banned in a file's content, with line numbers.
func bannedWords(content []byte) []string {
	var found []string
	for _, at := range banned.FindAllIndex(content, -1) {
		line := 1 + bytes.Count(content[:at[0]], []byte("\n"))
		found = append(found, fmt.Sprintf("line %d: %q", line, content[at[0]:at[1]]))
	}
	return found
}

func TestCommittedFiles(t *testing.T) {
	t.Parallel()
	root := repositoryRoot(t)
	// What is not ignored is committed, or is about to be.
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 2 {
		t.Fatalf("git knows only %q", files)
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Error(err)
		}
		for _, word := range bannedWords(content) {
			t.Errorf("%s, %s", file, word)
		}
	}
}

func TestBannedWords(t *testing.T) {
	t.Parallel()
	work := "/" + "work/"
	bad := []string{work + "main", "see `" + work + "x`", "DIR=" + work, "https://registry.npmjs" + ".org/x", "a\n\n" + work}
	for _, text := range bad {
		if len(bannedWords([]byte(text))) != 1 {
			t.Errorf("%q was let through", text)
		}
	}
	if got := bannedWords([]byte("a\n\n" + work)); len(got) != 1 || !strings.HasPrefix(got[0], "line 2") {
		t.Errorf("bannedWords = %q", got)
	}
	for _, text := range []string{"." + work, "home" + work, "${HOME}" + work, "pkg.go.dev", "go.work"} {
		if got := bannedWords([]byte(text)); len(got) > 0 {
			t.Errorf("%q was refused: %q", text, got)
		}
	}
}
