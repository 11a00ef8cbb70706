package workload_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

func TestRunningPodsFitTheirNodes(t *testing.T) {
	t.Parallel()
	for name, pending := range map[string]*engine.Snapshot{
		"gpu":     workload.Cost(workload.GPU, 100, 1, v1.CapacityTypeOnDemand),
		"diverse": workload.Diverse(100, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := workload.Running(pending, 200, 4000, 1)
			if len(pending.Pods) != 100 || len(pending.Nodes) != 0 {
				t.Fatal("the snapshot that was there has changed")
			}
			if len(s.Nodes) != 200 || len(s.NodeClaims) != 200 || len(s.Pods) != 4100 {
				t.Fatalf("%d nodes, %d claims, %d pods", len(s.Nodes), len(s.NodeClaims), len(s.Pods))
			}
			free := map[string]corev1.ResourceList{}
			for _, n := range s.Nodes {
				free[n.Name] = n.Status.Allocatable.DeepCopy()
			}
			for _, pod := range s.Pods[100:] {
				left := free[pod.Spec.NodeName]
				for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					q := left[r]
					if q.Sub(pod.Spec.Containers[0].Resources.Requests[r]); q.Sign() < 0 {
						t.Fatalf("node %s has too little %s", pod.Spec.NodeName, r)
					}
					left[r] = q
				}
			}
			tight := 0
			for _, n := range s.Nodes {
				left := free[n.Name]
				if left.Cpu().MilliValue()*20 < n.Status.Allocatable.Cpu().MilliValue() {
					tight++
				}
			}
			if tight < 130 || tight > 195 {
				t.Errorf("%d of 200 nodes have less than 5 %% of their cores left, want most but not all", tight)
			}
		})
	}
}

func TestRunningNodesTakePendingPods(t *testing.T) {
	t.Parallel()
	pending := workload.Cost(workload.Web, 100, 1, v1.CapacityTypeOnDemand)
	s := workload.Running(pending, 100, 2000, 1)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Placements) == 0 || len(plan.Unplaced) > 0 {
		t.Errorf("%d pods on existing nodes, %d nowhere", len(plan.Placements), len(plan.Unplaced))
	}
	if len(plan.Notes) > 0 {
		t.Errorf("the engine does not understand the cluster: %v", plan.Notes)
	}
	matched := 0
	labels := map[string]bool{}
	for _, pod := range pending.Pods {
		labels[pod.Labels["app"]] = true
	}
	for _, pod := range s.Pods[100:] {
		if labels[pod.Labels["app"]] {
			matched++
		}
	}
	if matched < 400 || matched > 600 {
		t.Errorf("%d of 2,000 running pods carry labels of pending ones, want about a quarter", matched)
	}
	if !reflect.DeepEqual(s, workload.Running(pending, 100, 2000, 1)) {
		t.Error("the same seed gives another cluster")
	}
}
