package sqlitetest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the other process of the tests that need one.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}
