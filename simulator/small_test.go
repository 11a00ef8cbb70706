package simulator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/scenario/workload"
	"tenon.sh/simulator"
)

// In small clusters a node that holds most of an owner's pods goes too, half of them at a time (the audit counts), and the bill is that
// of an autoscaler that moves one node's pods after the other, or less.
func TestSmallClustersCostNoMoreThanTheBaseline(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	type outcome struct {
		seed           uint64
		bill           float64
		ours, baseline *simulator.Result
	}
	draws := 12 * int(enginetest.Few(25))
	list := make([]outcome, draws)
	t.Run("draws", func(t *testing.T) {
		for i := range list {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				c := config(t, workload.SmallCluster(uint64(i+1)))
				c.Seed, c.For, c.WarmUp, c.Audit, c.BoundEvery = uint64(i+1), 48*time.Hour, 0, true, 48*time.Hour
				ours := run(t, c)
				c.Policy = simulator.Baseline
				theirs := run(t, c)
				list[i] = outcome{uint64(i + 1), ours.Cost / theirs.Cost, ours, theirs}
			})
		}
	})
	bill, ourEvictions, theirEvictions, dear, long := 0.0, 0.0, 0.0, 0, 0
	slices.SortFunc(list, func(a, b outcome) int { return -int(1e6*a.bill) + int(1e6*b.bill) })
	for _, o := range list {
		bill += o.bill / float64(draws)
		ourEvictions += o.ours.EvictionsPerPodDay * o.ours.PodDays
		theirEvictions += o.baseline.EvictionsPerPodDay * o.baseline.PodDays
		if o.bill > 1.03 {
			dear++
		}
		if stay := o.ours.LongestStay; stay.Time > 3*time.Hour {
			long++
			t.Logf("seed %d: node %s stayed for %s although its removal paid back: %s", o.seed, stay.Node, stay.Time, stay.Reason)
		}
		t.Logf("seed %d: %.2f of %.2f USD, %.3f; evictions per pod-day %.2f of %.2f", o.seed, o.ours.Cost, o.baseline.Cost, o.bill, o.ours.EvictionsPerPodDay, o.baseline.EvictionsPerPodDay)
	}
	t.Logf("bill %.3f of the baseline's, %d of %d above 1.03; evictions %.3f; in %d a node stayed for more than 3 hours", bill, dear, draws, ourEvictions/theirEvictions, long)
	most := 1.0
	if draws < 300 { // of a sample
		most = 1.2
	}
	if bill > 0.95 || dear > max(1, draws/15) || ourEvictions > most*theirEvictions || long > max(1, draws/30) {
		t.Errorf("want a bill of at most 0.95, at most one in 15 above 1.03, evictions of at most %.1f of the baseline's, and at most one in 30 with a stay of more than 3 hours", most)
	}
}

// A node that could go but for the budget counts from when it could; once it may go, it does not stay.
func TestTheLongestStayIsThatOfANodeThatALimitKeeps(t *testing.T) {
	t.Parallel()
	for budget, most := range map[string]time.Duration{"0": 12 * time.Hour, "100%": time.Hour} {
		t.Run(budget, func(t *testing.T) {
			t.Parallel()
			c := config(t, "now 2026-03-02T00:00:00Z\ncloud fixed30\npool general consolidate-after=1m budget="+budget+"\n"+
				"type two cpu=2 mem=8Gi zones=a price=0.10\ndeployment web x6 cpu=900m mem=1Gi day=0:6,1:6,1.5:3,23:3 weekend=100%\n")
			c.For = 12 * time.Hour
			stay := run(t, c).LongestStay
			if stay.Time > most || budget == "0" && (stay.Time < 9*time.Hour || stay.Reason != engine.BudgetExhausted) {
				t.Errorf("the longest stay: %+v", stay)
			}
		})
	}
}

// Moving a pod costs less as the pod grows older, so a node goes hours after the last change in the cluster.
func TestANodeGoesOnceItsPodIsOldEnoughToMove(t *testing.T) {
	t.Parallel()
	c := config(t, "now 2026-03-02T00:00:00Z\ncloud fixed30\npool general consolidate-after=1m budget=100%\n"+
		"type half cpu=2 mem=8Gi zones=a price=0.09\ntype whole cpu=2 mem=16Gi zones=a price=0.126\n"+
		"deployment gone x1 cpu=100m mem=8Gi day=0:1,1:1,1.1:0,23.9:0 weekend=100%\ndeployment web x1 cpu=1500m mem=6Gi\n")
	c.WarmUp, c.For = 0, 12*time.Hour
	r := run(t, c)
	if r.Counts.Evictions["underutilized"] != 1 || r.Cost > 12*0.11 {
		t.Errorf("%v pods were evicted, and the nodes cost %.2f USD: want one pod to move to the cheaper machine within some hours", r.Counts.Evictions, r.Cost)
	}
}
