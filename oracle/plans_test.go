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

// filterPlugins are those of kube-scheduler's default profile that a pod can meet. Left out are NodeName, which only looks at
// pods that name their node, and DynamicResources, for claims that the engine refuses.
var filterPlugins = []string{
	"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
	"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures",
}

// Both processors work, each with a scheduler of its own.
const judges = 2

// kube-scheduler has to accept every placement of the plans for drawn clusters, and to refuse what they refuse.
// ORACLE_PLACEMENTS says how many placements to look at, ORACLE_SEED where to begin.
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
		return // a look at single seeds
	}
	for _, plugin := range filterPlugins {
		if n := total.Refusals[plugin]; n < placements/100 {
			t.Errorf("%s refused %d times in %d placements: not enough to trust the answer", plugin, n, placements)
		}
	}
}

// judgePlans draws every second cluster from the seed on until there were enough placements.
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

// options are those of the scheduler in that cluster; what the plan does about preferences is another matter.
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
