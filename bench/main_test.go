package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/testservers"
)

// TestMain holds every subject to ending what it has started. Add what a peer
// cannot end as an option, with its reason.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testservers.Main(m))
}
