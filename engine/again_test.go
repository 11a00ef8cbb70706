package engine_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario/workload"
)

// After a pass that has found nothing, the next one finds the machine whose pods have left, and says of the others what was
// found before.
func TestPassesAfterOneThatFoundNothingSeeWhatHasChanged(t *testing.T) {
	t.Parallel()
	opt := engine.Options{LargestCPU: 8}
	s := consolidated(workload.ScaledDown(workload.Cost(workload.CPU, 4000, 1, v1.CapacityTypeOnDemand), opt, 0.1, 1), opt)
	if len(s.Nodes) < 400 {
		t.Fatalf("the cluster has %d nodes: too few to be looked at in part", len(s.Nodes))
	}
	memo := &engine.Memo{}
	first := engine.DisruptAgain(s, opt, memo)
	if len(first.Disruptions) > 0 {
		t.Fatal("there is something to be had")
	}
	next := *s
	next.Now = s.Now.Add(10 * time.Second)
	same := engine.DisruptAgain(&next, opt, memo)
	if len(same.Disruptions) > 0 || !slices.Equal(same.Kept, first.Kept) {
		t.Error("nothing has changed, and the plan is another one")
		for i := range same.Kept {
			if same.Kept[i] != first.Kept[i] {
				t.Log(same.Kept[i], first.Kept[i])
			}
		}
	}

	bare := s.Nodes[len(s.Nodes)/2].Name // all its pods but one leave
	left := 0
	next.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		if p.Spec.NodeName == bare {
			left++
		}
		return p.Spec.NodeName == bare && left > 1
	})
	next.Now = s.Now.Add(20 * time.Second)
	plan := engine.DisruptAgain(&next, opt, memo)
	if !slices.ContainsFunc(plan.Disruptions, func(d engine.Disruption) bool { return slices.Contains(d.Nodes, bare) }) {
		t.Errorf("%s has one pod left of %d, and stays: %+v", bare, left, plan.Disruptions)
	}

	next.Pods, next.Now = s.Pods, s.Now.Add(2*time.Minute)
	later, whole := engine.DisruptAgain(&next, opt, memo), engine.Disrupt(&next, opt, nil)
	if !slices.Equal(later.Kept, whole.Kept) {
		t.Error("a minute later not everything was looked at")
	}
}
