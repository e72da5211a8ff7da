package main

import (
	"fmt"
	"regexp"
	"strings"
)

// allowedSkip is one line of the list: skips of Test in Package are expected, for Reason.
type allowedSkip struct {
	Package, Test, Reason string
	packages, tests       *regexp.Regexp
	seen                  bool
}

// parseAllowedSkips reads lines of the form "PACKAGE TEST # REASON". In PACKAGE (an import path) and TEST (a name with
// its subtests, as `go test -v` prints it), * stands for any text. Empty lines and lines that start with # say nothing.
func parseAllowedSkips(text string) ([]allowedSkip, error) {
	var allowed []allowedSkip
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, reason, _ := strings.Cut(line, " # ")
		fields := strings.Fields(what)
		reason = strings.TrimSpace(reason)
		if len(fields) != 2 || reason == "" {
			return nil, fmt.Errorf("line %d: want PACKAGE TEST # REASON, found %q", i+1, line)
		}
		allowed = append(allowed, allowedSkip{
			Package: fields[0], Test: fields[1], Reason: reason,
			packages: glob(fields[0]), tests: glob(fields[1]),
		})
	}
	return allowed, nil
}

// glob turns a pattern whose only wildcard is * into a regular expression for the whole text.
func glob(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`)
}

// allows says whether a skip of the test is expected.
func (a *allowedSkip) allows(pkg, test string) bool {
	return a.packages.MatchString(pkg) && a.tests.MatchString(test)
}
