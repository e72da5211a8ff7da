package main

import (
	"strings"
	"testing"

	"github.com/rheo-go/rheo/examples/internal/demotest"
)

func TestGroups(t *testing.T) {
	store := "embedded:" + t.TempDir()
	for round, want := range []string{": 100 payments", ": 0 payments"} { // the second time nothing is new
		out := demotest.NewOutput()
		if err := run(t.Context(), []string{"--store", store}, out); err != nil {
			t.Fatal(err)
		}
		if strings.Count(out.String(), want) != 2 {
			t.Errorf("run %d printed %q, want %q twice", round+1, out, want)
		}
	}
}
