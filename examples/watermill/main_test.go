package main

import (
	"testing"

	"github.com/rheo-go/rheo/examples/internal/demotest"
)

func TestWatermill(t *testing.T) {
	out, stop := demotest.Start(t, run, "--store", "memory:")
	defer stop()
	out.Await(t, "invoice: tea", 1)
	out.Await(t, "invoice: cake", 1)
	out.Await(t, "order-2: an order of nothing", 1)
}
