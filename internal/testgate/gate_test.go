package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The runs below are what `go test -json` printed, shortened to the events that matter.
const (
	passingRun = `{"Action":"start","Package":"toy/a"}
{"Action":"run","Package":"toy/a","Test":"TestOK"}
{"Action":"output","Package":"toy/a","Test":"TestOK","Output":"chatter\n"}
{"Action":"pass","Package":"toy/a","Test":"TestOK"}
{"Action":"output","Package":"toy/a","Output":"PASS\n"}
{"Action":"output","Package":"toy/a","Output":"ok  \ttoy/a\t0.003s\n"}
{"Action":"pass","Package":"toy/a"}
`
	skippingRun = `{"Action":"start","Package":"toy/a"}
{"Action":"run","Package":"toy/a","Test":"TestSkip/sub"}
{"Action":"output","Package":"toy/a","Test":"TestSkip/sub","Output":"=== RUN   TestSkip/sub\n"}
{"Action":"output","Package":"toy/a","Test":"TestSkip/sub","Output":"    a_test.go:4: no server\n"}
{"Action":"output","Package":"toy/a","Test":"TestSkip/sub","Output":"--- SKIP: TestSkip/sub (0.00s)\n"}
{"Action":"skip","Package":"toy/a","Test":"TestSkip/sub"}
{"Action":"pass","Package":"toy/a"}
`
	failingRun = `{"Action":"start","Package":"toy/b"}
{"Action":"output","Package":"toy/b","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"toy/b","Test":"TestBad","Output":"boom\n"}
{"Action":"fail","Package":"toy/b","Test":"TestBad"}
{"Action":"output","Package":"toy/b","Output":"FAIL\ttoy/b\t0.005s\n"}
{"Action":"fail","Package":"toy/b"}
`
	exitingRun = `{"Action":"start","Package":"toy/b"}
{"Action":"output","Package":"toy/b","Test":"TestExits","Output":"about to exit\n"}
{"Action":"output","Package":"toy/b","Output":"FAIL\ttoy/b\t0.005s\n"}
{"Action":"fail","Package":"toy/b"}
`
	unbuiltRun = `{"ImportPath":"toy/c","Action":"build-output","Output":"c.go:3: undefined: x\n"}
{"ImportPath":"toy/c","Action":"build-fail"}
`
	brokenOffRun = `{"Action":"start","Package":"toy/a"}
{"Action":"output","Package":"toy/a","Test":"TestOK","Output":"chatter\n"}
`
	untestedRun = `{"Action":"start","Package":"toy/d"}
{"Action":"output","Package":"toy/d","Output":"?   \ttoy/d\t[no test files]\n"}
{"Action":"skip","Package":"toy/d"}
`
)

func TestGate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		run, skips string
		status     int
		want       []string
		hidden     string
	}{
		"pass": {
			run: passingRun, status: 0, hidden: "chatter",
			want: []string{"ok  \ttoy/a\t0.003s", "1 passed, 0 failed, 0 skipped"},
		},
		"no test files": {run: untestedRun, status: 0, want: []string{"no test files", "0 passed, 0 failed, 0 skipped"}},
		"test fails": {
			run: failingRun, status: 1, hidden: "=== RUN",
			want: []string{"boom", "FAIL\ttoy/b\t0.005s", "0 passed, 1 failed, 0 skipped"},
		},
		"package fails without a failed test": {run: exitingRun, status: 1, want: []string{"about to exit", "FAIL\ttoy/b"}},
		"build fails":                         {run: unbuiltRun, status: 1, want: []string{"c.go:3: undefined: x"}},
		"run breaks off":                      {run: brokenOffRun, status: 1, want: []string{"chatter", "the run broke off in toy/a"}},
		"lines that are no events":            {run: "go: warning\n" + passingRun, status: 0, want: []string{"go: warning"}},
		"unexpected skip": {
			run: skippingRun, status: 1,
			want: []string{"unexpected skip: toy/a TestSkip/sub (a_test.go:4: no server)", "0 passed, 0 failed, 1 skipped"},
		},
		"allowed skip": {
			run: skippingRun, skips: "toy/* TestSkip/* # a reason\n", status: 0,
			want: []string{"skipped, as allowed: toy/a TestSkip/sub (a_test.go:4: no server)"},
		},
		"skip allowed in another package": {
			run: skippingRun, skips: "toy/b TestSkip/sub # a reason\n", status: 1, want: []string{"unexpected skip"},
		},
		"a line that allows nothing": {
			run: passingRun, skips: "toy/a TestGone # a reason\n", status: 0,
			want: []string{`note: no test was skipped that "toy/a TestGone" allows`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skips := filepath.Join(t.TempDir(), "skips")
			if err := os.WriteFile(skips, []byte(tt.skips), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			if status := run([]string{"-skips", skips}, strings.NewReader(tt.run), &out, &errs); status != tt.status {
				t.Errorf("status %d, want %d\n%s%s", status, tt.status, &out, &errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, &out)
				}
			}
			if tt.hidden != "" && strings.Contains(out.String(), tt.hidden) {
				t.Errorf("the output shows %q:\n%s", tt.hidden, &out)
			}
		})
	}
}

func TestAllowedSkipNeedsReason(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"toy/a TestX", "toy/a TestX #", "toy/a # reason", "toy/a TestX TestY # reason"} {
		if _, err := parseAllowedSkips(line); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
	allowed, err := parseAllowedSkips("# comment\n\n toy/a TestX # see issue #3\n")
	if err != nil || len(allowed) != 1 || allowed[0].Reason != "see issue #3" {
		t.Errorf("parseAllowedSkips = %+v, %v", allowed, err)
	}
}
