package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config() backendtest.Config {
	return backendtest.Config{Open: func(_ *testing.T, clock rheo.Clock) rheo.Backend {
		return memory.New(&memory.Options{Clock: clock})
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, config())
}

func TestModel(t *testing.T) {
	t.Parallel()
	backendtest.RunModel(t, config())
}
