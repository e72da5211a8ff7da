package memory_test

import (
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/memory"
)

func BenchmarkMemory(b *testing.B) {
	backendtest.Benchmark(b, func(*testing.B) rheo.Backend { return memory.New(nil) })
}
