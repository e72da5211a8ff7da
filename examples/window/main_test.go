package main

import (
	"path/filepath"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/examples/internal/demotest"
)

// Whatever is delivered again, each order counts once.
func TestWindow(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--store", "embedded:" + filepath.Join(dir, "store"), "--sums", filepath.Join(dir, "sums.json")}
	for range 2 {
		out := demotest.NewOutput()
		if err := run(t.Context(), args, out); err != nil {
			t.Fatal(err)
		}
		if want := "1000 orders, 499500 in all\n"; out.String() != want {
			t.Errorf("printed %q, want %q", out, want)
		}
	}
}

func TestAddCountsEachOrderOnce(t *testing.T) {
	sums := &Sums{Last: make(map[int]int64)}
	for _, sequence := range []int64{1, 2, 1, 2, 3} {
		sums.add(&rheo.Delivery{Lease: &rheo.Lease{Event: rheo.Event{Partition: 1, Sequence: sequence}}}, 10)
	}
	if sums.Orders != 3 || sums.Total != 30 {
		t.Errorf("%+v", sums)
	}
}
