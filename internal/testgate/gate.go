package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of `go test -json`: what `go doc test2json` and `go help buildjson` describe.
type event struct {
	Action     string
	Package    string
	ImportPath string // in place of Package, for the actions of a build
	Test       string
	Output     string
}

// testKey names a test; Test is empty for what the package itself prints.
type testKey struct{ Package, Test string }

// gate shows a test run and judges it.
type gate struct {
	out     io.Writer
	allowed []allowedSkip
	verbose bool

	output   map[testKey]*strings.Builder // of what has not ended yet
	packages map[string]bool              // that were started or named, and whether they have ended
	broken   bool                         // a package or a build failed

	passed, failed, skipped int
	unexpected              []string
}

func newGate(out io.Writer, allowed []allowedSkip, verbose bool) *gate {
	return &gate{
		out: out, allowed: allowed, verbose: verbose,
		output: map[testKey]*strings.Builder{}, packages: map[string]bool{},
	}
}

// read takes in a whole run. What is no JSON event is shown as it is.
func (g *gate) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if line[0] == '{' && json.Unmarshal(bytes.TrimSpace(line), &e) == nil && e.Action != "" {
				g.take(e)
			} else {
				fmt.Fprintf(g.out, "%s", line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the run: %w", err)
		}
	}
}

// take takes in one event.
func (g *gate) take(e event) {
	key := testKey{e.Package, e.Test}
	if e.Package != "" {
		g.packages[e.Package] = g.packages[e.Package] || e.Test == "" && ends(e.Action)
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(g.out, e.Output)
	case "build-fail":
		g.broken = true
	case "output":
		g.keep(key, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			g.endPackage(e)
		} else {
			g.endTest(key, e.Action)
		}
	}
}

func ends(action string) bool {
	return action == "pass" || action == "fail" || action == "skip"
}

// keep holds output back until it is known whether the test or package failed.
func (g *gate) keep(key testKey, output string) {
	if g.verbose {
		fmt.Fprint(g.out, output)
	}
	if g.output[key] == nil {
		g.output[key] = &strings.Builder{}
	}
	g.output[key].WriteString(output)
}

// endTest counts a test that has ended and shows what it printed, if it failed.
func (g *gate) endTest(key testKey, action string) {
	text := g.taken(key)
	switch action {
	case "pass":
		g.passed++
	case "fail":
		g.failed++
		g.show(text)
	case "skip":
		g.skipped++
		g.judgeSkip(key, skipReason(text))
	}
}

// endPackage shows a package's closing line, and everything it printed if it failed.
func (g *gate) endPackage(e event) {
	text := g.taken(testKey{e.Package, ""})
	if e.Action != "fail" {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "?") {
				g.show(line)
			}
		}
		return
	}
	g.broken = true
	g.showUnended(e.Package)
	g.show(text)
}

// showUnended shows the output of the package's tests that never came to an end.
func (g *gate) showUnended(pkg string) {
	keys := slices.SortedFunc(maps.Keys(g.output), func(a, b testKey) int {
		return strings.Compare(a.Test, b.Test)
	})
	for _, key := range keys {
		if key.Package == pkg {
			g.show(g.taken(key))
		}
	}
}

// judgeSkip says of a skipped test whether the list allows it.
func (g *gate) judgeSkip(key testKey, reason string) {
	named := key.Package + " " + key.Test
	for i := range g.allowed {
		if a := &g.allowed[i]; a.allows(key.Package, key.Test) {
			a.seen = true
			g.show(fmt.Sprintf("skipped, as allowed: %s (%s)\n", named, reason))
			return
		}
	}
	g.unexpected = append(g.unexpected, fmt.Sprintf("%s (%s)", named, reason))
}

// skipReason is what the test said when it skipped itself: its output without go test's own lines.
func skipReason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// taken returns the output kept for key and forgets it.
func (g *gate) taken(key testKey) string {
	kept := g.output[key]
	if kept == nil {
		return ""
	}
	delete(g.output, key)
	return kept.String()
}

// show prints text without go test's notes of what starts and pauses, unless all has been printed as it came.
func (g *gate) show(text string) {
	if g.verbose {
		return
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(g.out, line)
		}
	}
}

// finish prints what the whole run comes to and says whether it is good.
func (g *gate) finish() bool {
	var cut []string
	for pkg, ended := range g.packages {
		if !ended {
			cut = append(cut, pkg)
		}
	}
	slices.Sort(cut)
	for _, pkg := range cut {
		g.showUnended(pkg)
		fmt.Fprintf(g.out, "the run broke off in %s\n", pkg)
	}
	for _, skip := range g.unexpected {
		fmt.Fprintf(g.out, "unexpected skip: %s; allow it in .ci/allowed-skips with a reason, or make it run\n", skip)
	}
	for _, a := range g.allowed {
		if !a.seen && g.ran(a) {
			fmt.Fprintf(g.out, "note: no test was skipped that %q allows\n", a.Package+" "+a.Test)
		}
	}
	fmt.Fprintf(g.out, "%d passed, %d failed, %d skipped\n", g.passed, g.failed, g.skipped)
	return g.failed == 0 && !g.broken && len(cut) == 0 && len(g.unexpected) == 0
}

// ran says whether the run had a package that the line of the list is about.
func (g *gate) ran(a allowedSkip) bool {
	for pkg := range g.packages {
		if a.packages.MatchString(pkg) {
			return true
		}
	}
	return false
}
