package engine_test

import (
	"testing"

	"tenon.sh/engine/disruption"
)

// Of several faults the one with the highest priority is what a node is said to be broken by; of several of the same, the one that
// should have been mended first.
func TestTheMostUrgentFaultIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ broken, want string }{
		{"broken=(Ready False for=9h) broken=(Disk True for=40m)", "Disk"},
		{"broken=(Disk True for=40m) broken=(Kernel True for=50m)", "Kernel"},
		{"broken=(Disk True for=50m) broken=(Kernel True for=40m)", "Disk"},
		{"broken=(Kernel True for=40m) broken=(Disk True for=40m)", "Disk"},
		{"broken=(Ready False for=9h) broken=(Disk True for=20m)", "Ready"},
		{"broken=(Disk True for=20m)", ""},
	} {
		s := clusterOf(t, "class default repair=(Ready False after=30m priority=10) repair=(Disk True after=30m priority=90) repair=(Kernel True after=30m priority=90)",
			"pool general", "type two cpu=2 mem=4Gi price=0.05", "node n1 pool=general type=two zone=a age=10h "+c.broken)
		if got := disruption.BrokenBy(s, s.Nodes[0], s.NodeClaims[0]); got != c.want {
			t.Errorf("%s: broken by %q, not %q", c.broken, got, c.want)
		}
	}
}
