package scheduler

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// A profile from a file may hold anything: a replay neither panics nor divides by zero, and a profile that kube-scheduler would refuse is
// reported.
func TestProfilesThatKubeSchedulerWouldRefuseAreSaid(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]engine.SchedulerProfile{
		"none of LeastAllocated": {Strategy: "Best"},
		"no name":                {Resources: []engine.ResourceWeight{{Name: "", Weight: 1}}},
		"weight of resource cpu": {Resources: []engine.ResourceWeight{{Name: corev1.ResourceCPU, Weight: 0}}},
		"must be 1 to 100":       {Resources: []engine.ResourceWeight{{Name: corev1.ResourceCPU, Weight: 101}}},
		"at least one point":     {Strategy: engine.RequestedToCapacityRatio},
		"alone":                  {Shape: []engine.ShapePoint{{Utilization: 0, Score: 1}}},
		"utilization 101":        {Strategy: engine.RequestedToCapacityRatio, Shape: []engine.ShapePoint{{Utilization: 101, Score: 1}}},
		"score 11":               {Strategy: engine.RequestedToCapacityRatio, Shape: []engine.ShapePoint{{Utilization: 0, Score: 11}}},
		"point 2":                {Strategy: engine.RequestedToCapacityRatio, Shape: []engine.ShapePoint{{Utilization: 50, Score: 1}, {Utilization: 50, Score: 2}}},
		"score plugin \"Magic\"": {Weights: map[string]int64{"Magic": 1}},
		"score plugin NodeAffi":  {Weights: map[string]int64{engine.NodeAffinity: math.MaxInt64}},
		"hardPodAffinityWeight":  {HardPodAffinityWeight: new(int64(101))},
		"percentageOfNodes":      {PercentageOfNodesToScore: -1},
	} {
		if got := p.Problem(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q does not say %q", p, got, want)
		}
	}
	if got := (&engine.SchedulerProfile{Strategy: engine.RequestedToCapacityRatio, Shape: []engine.ShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}}).Problem(); got != "" {
		t.Error(got)
	}
}

func TestKubeSchedulerLooksAtAsManyNodesAsItsPercentageSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ percentage, nodes, want int }{
		{0, 10, 10}, {0, 100, 100}, {0, 1000, 420}, {0, 10000, 500}, {100, 1000, 1000}, {30, 500, 150}, {1, 1000, 100}, {50, 50, 50},
	} {
		s := scoring{percentage: int64(c.percentage)}
		if got := s.nodesToScore(c.nodes); got != c.want {
			t.Errorf("%d %% of %d nodes: %d, want %d", c.percentage, c.nodes, got, c.want)
		}
	}
}

func TestEachPodHasTheProfileOfItsScheduler(t *testing.T) {
	t.Parallel()
	some := engine.Options{Profiles: []engine.SchedulerProfile{{SchedulerName: "pack"}, {SchedulerName: corev1.DefaultSchedulerName}}}
	all := engine.Options{Profiles: []engine.SchedulerProfile{{}, {SchedulerName: "pack"}}}
	for _, c := range []struct {
		opt       engine.Options
		scheduler string
		want      int
	}{
		{engine.Options{}, "", -1}, {some, "", 1}, {some, "default-scheduler", 1}, {some, "pack", 0}, {some, "other", -1},
		{all, "", 0}, {all, "other", 0}, {all, "pack", 1},
	} {
		if got := c.opt.ProfileOf(c.scheduler); got != c.want {
			t.Errorf("%q: profile %d, want %d", c.scheduler, got, c.want)
		}
	}
}
