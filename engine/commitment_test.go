package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// What a machine would give back of a commitment pays for nobody's replacement while it stays: above 1,000 machines, a trial of many that go
// is used again for some of them.
func TestAMachineThatStaysGivesNothingBack(t *testing.T) {
	t.Parallel()
	lines := []string{
		"pool careful budget=100% consolidation=Balanced", "pool general budget=100%",
		"type big cpu=16 mem=64Gi price=0.80 zones=a,b", "type small cpu=2 mem=8Gi price=0.10 zones=a,b", "type huge cpu=64 mem=256Gi price=20 zones=b",
		"commitment plan amount=0.1 discount=0.5 topology.kubernetes.io/zone in (a)",
		"node room pool=careful type=huge zone=b quiet=10m", "pod large cpu=40 node=room owner=Deployment age=5h",
		"node first pool=careful type=big zone=a quiet=10m", "node second pool=general type=big zone=b quiet=10m",
		"pod alone cpu=1500m node=second owner=Deployment age=5h pool in (general)",
	}
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("pod f%d cpu=1 node=first owner=Deployment age=5h", i))
	}
	for i := range 1001 {
		lines = append(lines, fmt.Sprintf("node n%d pool=general type=small zone=b quiet=10m", i), fmt.Sprintf("pod p%d cpu=1700m node=n%d owner=Deployment age=5h pool in (general)", i, i))
	}
	s := clusterOf(t, lines...)
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) == 0 {
		t.Error("nothing goes: it proves nothing")
	}
	for _, d := range plan.Disruptions {
		if slices.Contains(d.Nodes, "first") {
			t.Error("first goes: it proves nothing")
		}
		for _, l := range d.Replacements {
			if l.Commitment != "" {
				t.Errorf("%v: %s is to be paid for by %s, of which first uses all", d.Nodes, l.Sentence(), l.Commitment)
			}
		}
	}
}

// What a commitment pays for costs as much as every node does beside its machine. The lists of launches are as long as without that.
func TestListsOfCoveredMachinesKnowWhatTheyWouldCost(t *testing.T) {
	t.Parallel()
	for _, commitment := range []string{"commitment some machines=1 price=0.01", "commitment all machines=1000000 price=0.01"} {
		for _, min := range []string{"", " type exists min=2"} {
			s := clusterOf(t, "pool p"+min, "node-overhead-price 0.02", commitment, "pod a cpu=1",
				"type t2 cpu=2 mem=8Gi price=0.10", "type t2x cpu=2 mem=9Gi price=0.11", "type t4 cpu=4 mem=16Gi price=0.20", "type t64 cpu=64 mem=256Gi price=3.20")
			l := provisioning.Plan(s, engine.Options{}, nil).Launches[0]
			if want := []string{"t2", "t2x"}; l.Commitment == "" || !slices.Equal(l.InstanceTypes, want) {
				t.Errorf("%s%s: paid for by %q, the list is %v, want %v", commitment, min, l.Commitment, l.InstanceTypes, want)
			}
		}
	}
}

// Nodes are looked at again once commitments have more left than they had: others have given it back, or the file says so.
func TestNodesAreLookedAtAgainOnceCommitmentsHaveMoreLeft(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p budget=100% zone in (a)", "pool q budget=100% consolidation=WhenEmpty", "type two cpu=2 mem=8Gi price=0.10 zones=a,b",
		"node other pool=q type=two zone=a quiet=1h", "pod o cpu=1900m node=other owner=Deployment age=5h",
		"node m pool=p type=two zone=b quiet=1h", "pod a cpu=1900m node=m owner=Deployment age=5h"}
	lookAgain := engine.Options{LookAgain: time.Hour}
	passes := newPasses(t)
	s := clusterOf(t, append(lines, "commitment plan amount=0.06 discount=0.5 topology.kubernetes.io/zone in (a)")...)
	for range 2 {
		if plan := passes.plan(s, lookAgain); len(plan.Disruptions) > 0 {
			t.Fatalf("%+v go while the commitment has 0.01 left and a machine takes 0.05", plan.Disruptions)
		}
	}
	gone := *s
	gone.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *corev1.Node) bool { return n.Name == "other" })
	gone.NodeClaims = slices.DeleteFunc(slices.Clone(s.NodeClaims), func(c *v1.NodeClaim) bool { return c.Name == "other" })
	gone.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return p.Name == "o" })
	more := *s
	more.Commitments = slices.Clone(s.Commitments)
	more.Commitments[0].AmountPerHour = 0.11
	for name, s := range map[string]*engine.Snapshot{"other is gone": &gone, "the file says more": &more} {
		again := *passes
		again.cache = inventory.Cache{}
		if plan := again.plan(s, lookAgain); len(plan.Disruptions) != 1 || plan.Disruptions[0].Replacements[0].Commitment != "plan" {
			t.Errorf("%s: %+v, want m in the place of what the commitment pays for", name, plan.Disruptions)
		}
	}
}

// Limits of pools may have room for what a commitment pays for, or for the pods: that these run counts more than what is paid. The plan made
// without commitments is taken where it has room for more pods, though it is dearer, and not where it has room for fewer.
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
		plan := provisioning.Plan(clusterOf(t, c.lines...), engine.Options{}, nil)
		if len(plan.Unplaced) > c.most {
			t.Errorf("%s: %d pods are left, not %d", c.lines[0], len(plan.Unplaced), c.most)
		}
	}
}
