package engine_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

// The pods can run on each machine that the cloud may choose.
func TestEveryListedOfferingIsPredictedAsANodeThatAdmitsThePods(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		pods := map[engine.PodID]*corev1.Pod{}
		for _, p := range s.Pods {
			pods[scenariotest.ID(p)] = p
		}
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for i := range plan.Launches {
			l := &plan.Launches[i]
			for _, o := range l.Offerings {
				node, _ := scheduler.Predict(s, l, o.OfferingID)
				if node == nil {
					t.Fatalf("seed %d: %s as %s is not predicted", seed, l.Name, o.OfferingID)
				}
				free := node.Status.Allocatable.DeepCopy()
				for _, id := range l.Pods {
					if !admits(&pods[id].Spec, node.Labels, node.Spec.Taints) {
						t.Errorf("seed %d: %s as %s does not admit %s; its labels are %v", seed, l.Name, o.OfferingID, id, maps.Clone(node.Labels))
					}
					takeFrom(free, requests(pods[id]))
				}
				for _, r := range negative(free) {
					t.Errorf("seed %d: %s as %s has too little %s", seed, l.Name, o.OfferingID, r)
				}
			}
		}
	})
}
