package redis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/testservers"
)

// quiet keeps to itself what the driver prints when a test has killed its server.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	// The driver's own, which finds within a second that its client was closed.
	dialing := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	goleak.VerifyTestMain(testservers.Main(m), dialing)
}
