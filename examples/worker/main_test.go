package main

import (
	"testing"

	"github.com/rheo-go/rheo/examples/internal/demotest"
)

func TestWorker(t *testing.T) {
	for _, supervisor := range []string{"errgroup", "suture"} {
		t.Run(supervisor, func(t *testing.T) {
			out, stop := demotest.Start(t, run, "--store", "memory:", "--supervisor", supervisor, "--every", "1ms")
			defer stop()
			out.Await(t, "done", 20)
		})
	}
}
