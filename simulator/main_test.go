package simulator_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets more garbage lie: the runs are short and hold little, and a third of their time went into collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
