// Package backendtest is the conformance suite of Rheo's backends: [Run] holds a
// [rheo.Backend] to every promise that package rheo makes, case by case, and
// [RunModel] lets random operations loose on it and compares with a model. A
// backend's own test calls both:
//
//	func TestConformance(t *testing.T) {
//		config := backendtest.Config{Open: func(t *testing.T, clock rheo.Clock) rheo.Backend {
//			return mystore.New(&mystore.Options{Clock: clock})
//		}}
//		backendtest.Run(t, config)
//		backendtest.RunModel(t, config)
//	}
//
// What a backend's [rheo.Capabilities] leave open is skipped, and the skip names
// the capability. Safety is never skipped: at-least-once delivery, fencing,
// sequences without gaps, idempotency.
//
// Nothing here sleeps. Time is a [Clock] that the suite moves; the few real waits
// are bounded and say what they wait for.
package backendtest

import (
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

// Config tells the suite how to get at a backend.
type Config struct {
	// Open returns a fresh, empty backend whose "now" is the clock's. The suite
	// closes it; what else there is to clean up, Open leaves to t.Cleanup.
	Open func(t *testing.T, clock rheo.Clock) rheo.Backend
	// Reopen closes b and opens the same store again, as a new process would.
	// Backends that declare [rheo.Guarantees].Durable must have it.
	Reopen func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend
	// Join opens the same store once more, beside b, as another process would; the
	// suite closes both. Nil if one process alone may have the store. Backends that
	// declare [rheo.Guarantees].Distributed must have it.
	Join func(t *testing.T, b rheo.Backend, clock rheo.Clock) rheo.Backend
	// Serial runs one case at a time, for stores that cannot be opened twice.
	Serial bool
	// Scale multiplies the number of events in the cases that take many, for slow
	// stores. Default 1.
	Scale float64
	// Timeout bounds each case. Default two minutes.
	Timeout time.Duration
}

// A guarantee is a group of cases.
type guarantee struct {
	name  string
	cases []testCase
}

// A testCase shows one promise on a backend of its own.
type testCase struct {
	name  string
	needs []need
	run   func(*subject)
}

// A need is an optional capability.
type need struct {
	name string
	met  func(rheo.Capabilities) bool
}

var (
	needsPartitions = need{"partitions", func(c rheo.Capabilities) bool { return c.Guarantees.Partitions }}
	needsFrontier   = need{"contiguous_frontier", func(c rheo.Capabilities) bool { return c.Guarantees.ContiguousFrontier }}
	needsReplay     = need{"replay", func(c rheo.Capabilities) bool { return c.Guarantees.Replay }}
	needsOrder      = need{"ordered_scan", func(c rheo.Capabilities) bool { return c.Guarantees.OrderedScan }}
	needsAtomic     = need{"atomic_batch", func(c rheo.Capabilities) bool { return c.Guarantees.AtomicBatch }}
	needsDurable    = need{"durable", func(c rheo.Capabilities) bool { return c.Guarantees.Durable }}
	needsSharing    = need{"distributed", func(c rheo.Capabilities) bool { return c.Guarantees.Distributed }}
	needsHints      = need{"notifications", func(c rheo.Capabilities) bool { return c.Mechanisms.Notifications }}
)

// Run checks the backend against every case, as subtests named guarantee/case.
// It returns when all of them have ended.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, g := range suite() {
		t.Run(g.name, func(t *testing.T) {
			for _, tc := range g.cases {
				t.Run(tc.name, func(t *testing.T) {
					if !c.Serial {
						t.Parallel()
					}
					s := open(t, c)
					s.require(tc.needs)
					defer s.survive()
					tc.run(s)
				})
			}
		})
	}
}

// Cases returns the names of all cases, in the order in which Run has them, for
// a test that every backend ran the same list.
func Cases() []string {
	var names []string
	for _, g := range suite() {
		for _, tc := range g.cases {
			names = append(names, g.name+"/"+tc.name)
		}
	}
	return names
}

func suite() []guarantee {
	return []guarantee{
		{"log", logCases()},
		{"append", appendCases()},
		{"json", jsonCases()},
		{"query", queryCases()},
		{"paging", pagingCases()},
		{"groups", groupCases()},
		{"leases", leaseCases()},
		{"fencing", fencingCases()},
		{"settle", settleCases()},
		{"frontier", frontierCases()},
		{"ordering", orderingCases()},
		{"fairness", fairnessCases()},
		{"replay", replayCases()},
		{"reset", resetCases()},
		{"deadletters", deadLetterCases()},
		{"input", inputCases()},
		{"context", contextCases()},
		{"hints", hintCases()},
		{"durability", durabilityCases()},
		{"sharing", sharingCases()},
	}
}
