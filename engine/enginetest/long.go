package enginetest

import (
	"os"
	"testing"
)

// Long skips a test that takes several seconds if the flag -short is set, as in make quick. In CI, where no test may be left out, the test fails.
func Long(t testing.TB) {
	t.Helper()
	switch {
	case !testing.Short():
	case os.Getenv("CI") != "":
		t.Fatal("go test -short leaves this test out because it takes several seconds, and CI is set: run make test, or go test without -short")
	default:
		t.Skip("takes several seconds: make test runs it, or go test without -short")
	}
}
