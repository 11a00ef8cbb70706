package simulator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine/enginetest"
	"tenon.sh/simulator"
)

// smallCluster draws a cluster as people try one first: one to eight Deployments of one to six replicas by day and fewer by night, in one
// to three pools, on demand or on spot machines as well.
func smallCluster(seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 0x5ca11))
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	var text strings.Builder
	fmt.Fprintln(&text, "now 2026-03-02T00:00:00Z\ncloud aws-typical")
	for _, f := range []struct {
		name           string
		memory, perCPU float64
	}{{"c", 2, 0.0425}, {"m", 4, 0.048}, {"r", 8, 0.063}} {
		for _, cpu := range []float64{2, 4, 8, 16} {
			fmt.Fprintf(&text, "type %s%g cpu=%g mem=%gGi zones=a,b price=%g spot=%g\n", f.name, cpu, cpu, f.memory*cpu, f.perCPU*cpu, 0.4*f.perCPU*cpu)
		}
	}
	pools := 1 + dice.IntN(3)
	for i := range pools {
		labels := ""
		if i > 0 {
			labels = fmt.Sprintf(" labels=team:%d", i)
		}
		fmt.Fprintf(&text, "pool p%d consolidate-after=%s budget=%s%s capacity in (%s)\n",
			i, pick("0s", "1m", "5m"), pick("1", "10%", "50%"), labels, pick("on-demand", "on-demand", "spot,on-demand"))
	}
	for i := range 1 + dice.IntN(8) {
		most := 1 + dice.IntN(6)
		least := dice.IntN(most + 1)
		from, to := 5+dice.IntN(5), 16+dice.IntN(6)
		sel := ""
		if pool := dice.IntN(pools); pool > 0 {
			sel = fmt.Sprintf(" select=team:%d", pool)
		}
		fmt.Fprintf(&text, "deployment d%d x%d cpu=%s mem=%s%s day=%d:%d,%d:%d,%d:%d,%d:%d weekend=100%% start=%ds\n",
			i, most, pick("100m", "250m", "500m", "1", "2", "4"), pick("256Mi", "1Gi", "2Gi", "4Gi", "8Gi"), sel,
			from, least, from+1, most, to, most, to+1, least, 2+dice.IntN(40))
	}
	return text.String()
}

// In small clusters a node that holds most of an owner's pods goes too, half of them at a time (the audit counts), and the bill is that
// of an autoscaler that moves one node's pods after the other, or less.
func TestSmallClustersCostNoMoreThanTheBaseline(t *testing.T) {
	t.Parallel()
	type outcome struct {
		seed           uint64
		bill           float64
		ours, baseline *simulator.Result
	}
	draws := int(enginetest.Draws(300))
	list := make([]outcome, draws)
	t.Run("draws", func(t *testing.T) {
		for i := range list {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				c := config(t, smallCluster(uint64(i+1)))
				c.Seed, c.For, c.WarmUp, c.Audit, c.BoundEvery = uint64(i+1), 48*time.Hour, 0, true, 48*time.Hour
				ours := run(t, c)
				c.Policy = simulator.Baseline
				theirs := run(t, c)
				list[i] = outcome{uint64(i + 1), ours.Cost / theirs.Cost, ours, theirs}
			})
		}
	})
	bill, ourEvictions, theirEvictions, dear := 0.0, 0.0, 0.0, 0
	slices.SortFunc(list, func(a, b outcome) int { return -int(1e6*a.bill) + int(1e6*b.bill) })
	for _, o := range list {
		bill += o.bill / float64(draws)
		ourEvictions += o.ours.EvictionsPerPodDay * o.ours.PodDays
		theirEvictions += o.baseline.EvictionsPerPodDay * o.baseline.PodDays
		if o.bill > 1.03 {
			dear++
		}
		t.Logf("seed %d: %.2f of %.2f USD, %.3f; evictions per pod-day %.2f of %.2f", o.seed, o.ours.Cost, o.baseline.Cost, o.bill, o.ours.EvictionsPerPodDay, o.baseline.EvictionsPerPodDay)
	}
	t.Logf("bill %.3f of the baseline's, %d of %d above 1.03; evictions %.3f", bill, dear, draws, ourEvictions/theirEvictions)
	if bill > 0.97 || dear > draws/10 || ourEvictions > 1.1*theirEvictions {
		t.Errorf("want a bill of at most 0.97, at most one in ten above 1.03, and evictions of at most 1.1 of the baseline's")
	}
}
