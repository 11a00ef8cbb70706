package oracle

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
)

// filterPlugins lists the filter plugins of kube-scheduler's default profile that can refuse a pod here. It leaves out NodeName, which only
// concerns pods that name their node, and DynamicResources, for claims that the engine refuses.
var filterPlugins = []string{
	"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
	"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures",
}

// Two schedulers run in parallel, one for each processor.
const judges = 2

// kube-scheduler must accept each placement of the plans for random clusters, and refuse each pod that they refuse. ORACLE_PLACEMENTS is the
// number of placements, ORACLE_SEED the first seed.
func TestPlansOfDrawnClustersPassKubeScheduler(t *testing.T) {
	t.Parallel()
	placements, first := number(t, "ORACLE_PLACEMENTS", 5000), number(t, "ORACLE_SEED", 1)
	var lock sync.Mutex // guards total
	var total Report
	began := time.Now()
	t.Run("judges", func(t *testing.T) {
		for k := range judges {
			t.Run(strconv.Itoa(k), func(t *testing.T) {
				t.Parallel()
				report, last := judgePlans(t, uint64(first+k), (placements+judges-1)/judges)
				t.Logf("seeds %d to %d, every %d", first+k, last, judges)
				lock.Lock()
				defer lock.Unlock()
				total.Add(report)
			})
		}
	})
	took := time.Since(began)
	t.Logf("%s\n%.0f verdicts a second", total, float64(total.Asked)/took.Seconds())
	for i, d := range total.Disagreements {
		if i == 20 {
			t.Errorf("and %d more", len(total.Disagreements)-i)
			break
		}
		t.Errorf("%s\nalone: ORACLE_SEED=%d ORACLE_PLACEMENTS=1", d, d.Seed)
	}
	if placements < 5000 {
		return // this run checks single seeds
	}
	for _, plugin := range filterPlugins {
		if n := total.Refusals[plugin]; n < placements/100 {
			t.Errorf("%s refused %d times in %d placements: not enough to trust the answer", plugin, n, placements)
		}
	}
}

// judgePlans checks each second cluster from the seed on until there were enough placements.
func judgePlans(t *testing.T, seed uint64, placements int) (total Report, last uint64) {
	scheduler := open(t)
	for ; total.Placements < placements && len(total.Disagreements) < 1000; seed += judges {
		report, err := judgePlan(scheduler, seed)
		if err != nil {
			t.Error(err)
			return total, seed
		}
		total.Add(report)
		last = seed
	}
	return total, last
}

func judgePlan(scheduler *Scheduler, seed uint64) (Report, error) {
	s, opt := Draw(seed), options(seed)
	j := &Judge{Scheduler: scheduler, Seed: seed, DefaultConstraints: opt.DefaultConstraints, Preferences: opt.Preferences}
	report, err := j.Judge(s, provisioning.Plan(s, opt, nil))
	if err != nil {
		return report, fmt.Errorf("seed %d: %w", seed, err)
	}
	return report, nil
}

// options returns the options for the scheduler in that cluster. The plan's policy for preferences is separate.
func options(seed uint64) engine.Options {
	policies := []engine.PreferencePolicy{engine.Respect, engine.Respect, engine.Respect, engine.Ignore, engine.Weighted}
	return engine.Options{DefaultConstraints: Constraints(seed), Preferences: policies[seed%uint64(len(policies))]}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is not a number", variable, text)
	}
	return n
}
