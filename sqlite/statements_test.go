package sqlite

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestStatementNames compares the names in the code with those in the .sql files.
func TestStatementNames(t *testing.T) {
	t.Parallel()
	texts, err := newStatements(names{"p_"})
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".go") && !strings.HasSuffix(f.Name(), "_test.go") {
			text, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for name, text := range texts {
		if !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("nothing uses %s", name)
		}
		if strings.ContainsAny(text, "{}") || strings.HasSuffix(text, ";") {
			t.Errorf("%s is %q", name, text)
		}
	}
	used := regexp.MustCompile(`(?:exec|write|each|one)\(ctx, "([a-z-]+)"`)
	for _, m := range used.FindAllStringSubmatch(code.String(), -1) {
		if texts[m[1]] == "" {
			t.Errorf("there is no statement %s", m[1])
		}
	}
}

func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	if got, want := (names{`a"b; `}).fill("SELECT * FROM {events}"), `SELECT * FROM "a""b; events"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
