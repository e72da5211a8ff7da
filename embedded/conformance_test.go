package embedded_test

import (
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/embedded"
)

func config() backendtest.Config {
	open := func(t *testing.T, dir string, clock rheo.Clock) rheo.Backend {
		t.Helper()
		b, err := embedded.Open(dir, &embedded.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return backendtest.Config{
		Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
			t.Helper()
			return open(t, t.TempDir(), clock)
		},
		Reopen: func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend {
			t.Helper()
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, b.(*embedded.Backend).Dir(), clock)
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, config())
}

func TestModel(t *testing.T) {
	t.Parallel()
	backendtest.RunModel(t, config())
}
