//go:build unix

package cli

import (
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/testservers"
)

func init() {
	withServers = func(m *testing.M) goleak.TestingM { return testservers.Main(m) }
	kinds["postgres"] = func(t *testing.T) string {
		t.Helper()
		store := testservers.Postgres(t).Database(t)
		if code := Run(t.Context(), []string{"--store", store, "migrate"}, nil, io.Discard, t.Output()); code != exitDone {
			t.Fatalf("migrate: exit %d", code)
		}
		return store
	}
	kinds["redis"] = func(t *testing.T) string {
		t.Helper()
		return testservers.Redis(t).URL() + "?rheo_prefix=" + redisPrefix()
	}
}
