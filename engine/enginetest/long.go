package enginetest

import "testing"

// Long skips a test that takes several seconds if tests are to be short (go test -short), as make quick asks for.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes several seconds: make test runs it, or go test without -short")
	}
}
