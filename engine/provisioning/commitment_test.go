package provisioning_test

import (
	"slices"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// A covered machine costs as much as every node does beside its machine. The lists of launches are as long as without commitments.
func TestListsOfCoveredMachinesKnowWhatTheyWouldCost(t *testing.T) {
	t.Parallel()
	for _, commitment := range []string{"commitment some machines=1 price=0.01", "commitment all machines=1000000 price=0.01"} {
		for _, min := range []string{"", " type exists min=2"} {
			s := scenariotest.Cluster(t, "pool p"+min, "node-overhead-price 0.02", commitment, "pod a cpu=1",
				"type t2 cpu=2 mem=8Gi price=0.10", "type t2x cpu=2 mem=9Gi price=0.11", "type t4 cpu=4 mem=16Gi price=0.20", "type t64 cpu=64 mem=256Gi price=3.20")
			l := provisioning.Plan(s, engine.Options{}, nil).Launches[0]
			if want := []string{"t2", "t2x"}; l.Commitment == "" || !slices.Equal(l.InstanceTypes, want) {
				t.Errorf("%s%s: paid for by %q, the list is %v, want %v", commitment, min, l.Commitment, l.InstanceTypes, want)
			}
		}
	}
}

// Limits of pools may have room for covered machines or for all pods: the pods count more than the price. The plan without commitments is
// taken if it has room for more pods, though it is dearer, and not if it has room for fewer.
func TestCommitmentsTakeNoRoomFromPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most  int // pods that are left
		lines []string
	}{
		{0, []string{"pool p limits=cpu:9", "pool q limits=cpu:17,memory:57Gi weight=1", "commitment some machines=2 price=0.01 type in (t0)",
			"type t0 cpu=3 mem=37Gi price=0.75 zones=a,b", "type t1 cpu=10 mem=19Gi price=0.18 zones=a,b", "type t2 cpu=6 mem=13Gi price=0.13 zones=a,b",
			"type t3 cpu=10 mem=26Gi price=0.79 zones=a,b",
			"pod p0 cpu=4900m mem=15Gi", "pod p1 cpu=900m mem=15Gi zone in (a)", "pod p2 cpu=1 mem=12Gi zone in (b)"}},
		{5, []string{"pool p limits=cpu:16", "commitment some machines=2 price=0.01 type in (t0)",
			"type t0 cpu=13 mem=8Gi price=0.66 zones=a,b", "type t1 cpu=16 mem=17Gi price=0.68 zones=a,b",
			"pod p0 cpu=4700m mem=6Gi zone in (b)", "pod p1 cpu=5100m mem=20Gi", "pod p2 cpu=1900m mem=15Gi zone in (b)", "pod p3 cpu=3600m mem=16Gi zone in (b)",
			"pod p4 cpu=3200m mem=12Gi zone in (b)", "pod p5 cpu=1600m mem=4Gi zone in (b)", "pod p6 cpu=2700m mem=13Gi zone in (a)"}},
		{2, []string{"pool p limits=cpu:15", "commitment some machines=2 price=0.01 type in (t0)", // all that is bought is paid for
			"type t0 cpu=15 mem=23Gi price=0.56 zones=a,b", "type t1 cpu=4 mem=31Gi price=0.22 zones=a,b", "type t2 cpu=12 mem=2Gi price=0.71 zones=a,b",
			"pod p0 cpu=2100m mem=15Gi zone in (a)", "pod p1 cpu=3400m mem=20Gi zone in (b)", "pod p2 cpu=3900m mem=8Gi", "pod p3 cpu=1300m mem=13Gi zone in (b)",
			"pod p4 cpu=5 mem=14Gi zone in (b)"}},
	} {
		plan := provisioning.Plan(scenariotest.Cluster(t, c.lines...), engine.Options{}, nil)
		if len(plan.Unplaced) > c.most {
			t.Errorf("%s: %d pods are left, not %d", c.lines[0], len(plan.Unplaced), c.most)
		}
	}
}
