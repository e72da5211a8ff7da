package backendtest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plantedVariable names the bug that the naive backend shall have.
const plantedVariable = "RHEO_PLANTED_BUG"

func config() backendtest.Config {
	bug, timeout := os.Getenv(plantedVariable), time.Minute
	if bug != "" {
		timeout = 3 * time.Second
	}
	return backendtest.Config{
		Open: func(_ *testing.T, clock rheo.Clock) rheo.Backend { return openNaive(clock, bug) },
		Reopen: func(_ *testing.T, b rheo.Backend, _ rheo.Clock) rheo.Backend {
			return b.(*naive).reopen()
		},
		Join: func(_ *testing.T, b rheo.Backend, _ rheo.Clock) rheo.Backend {
			return &naive{store: b.(*naive).store, bug: bug}
		},
		Scale:   0.2,
		Timeout: timeout,
	}
}

func TestNaive(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, config())
}

func TestNaiveModel(t *testing.T) {
	t.Parallel()
	backendtest.RunModel(t, config())
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, name := range backendtest.Cases() {
		if seen[name] || strings.Count(name, "/") != 1 {
			t.Errorf("the name %q is used twice, or is not guarantee/case", name)
		}
		seen[name] = true
	}
}
