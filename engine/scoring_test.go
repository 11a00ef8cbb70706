package engine

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A profile of a file may hold anything: a replay neither panics nor divides by zero, and what kube-scheduler would refuse is said.
func TestProfilesThatKubeSchedulerWouldRefuseAreSaid(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]SchedulerProfile{
		"none of LeastAllocated": {Strategy: "Best"},
		"no name":                {Resources: []ResourceWeight{{"", 1}}},
		"weight of resource cpu": {Resources: []ResourceWeight{{corev1.ResourceCPU, 0}}},
		"must be 1 to 100":       {Resources: []ResourceWeight{{corev1.ResourceCPU, 101}}},
		"at least one point":     {Strategy: RequestedToCapacityRatio},
		"alone":                  {Shape: []ShapePoint{{0, 1}}},
		"utilization 101":        {Strategy: RequestedToCapacityRatio, Shape: []ShapePoint{{101, 1}}},
		"score 11":               {Strategy: RequestedToCapacityRatio, Shape: []ShapePoint{{0, 11}}},
		"point 2":                {Strategy: RequestedToCapacityRatio, Shape: []ShapePoint{{50, 1}, {50, 2}}},
		"score plugin \"Magic\"": {Weights: map[string]int64{"Magic": 1}},
		"score plugin NodeAffi":  {Weights: map[string]int64{NodeAffinity: math.MaxInt64}},
		"hardPodAffinityWeight":  {HardPodAffinityWeight: new(int64(101))},
		"percentageOfNodes":      {PercentageOfNodesToScore: -1},
	} {
		if got := p.Problem(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q does not say %q", p, got, want)
		}
	}
	if got := (&SchedulerProfile{Strategy: RequestedToCapacityRatio, Shape: []ShapePoint{{0, 10}, {100, 0}}}).Problem(); got != "" {
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
	some := Options{Profiles: []SchedulerProfile{{SchedulerName: "pack"}, {SchedulerName: corev1.DefaultSchedulerName}}}
	all := Options{Profiles: []SchedulerProfile{{}, {SchedulerName: "pack"}}}
	for _, c := range []struct {
		opt       Options
		scheduler string
		want      int
	}{
		{Options{}, "", -1}, {some, "", 1}, {some, "default-scheduler", 1}, {some, "pack", 0}, {some, "other", -1},
		{all, "", 0}, {all, "other", 0}, {all, "pack", 1},
	} {
		if got := c.opt.profileOf(c.scheduler); got != c.want {
			t.Errorf("%q: profile %d, want %d", c.scheduler, got, c.want)
		}
	}
}
