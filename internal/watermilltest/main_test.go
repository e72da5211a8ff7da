package watermilltest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/testservers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testservers.Main(m),
		goleak.IgnoreTopFunction("github.com/ThreeDotsLabs/watermill/pubsub/tests.TestReconnect.func2")) // the suite's own
}
