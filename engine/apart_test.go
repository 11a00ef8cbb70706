package engine_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// Replicas are kept apart by exchanging pods between machines. However many exchanges that takes, every pod has one place.
func TestReplicasAreKeptApartWithoutLosingAny(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		s := workload.Cost(workload.Web, 1000, seed, "on-demand")
		for _, pod := range s.Pods {
			controller := true
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: pod.Labels["app"], UID: "u", Controller: &controller}}
		}
		placed := map[engine.PodID]int{}
		for _, l := range provisioning.Plan(s, engine.Options{LargestCPU: 32}, nil).Launches {
			for _, id := range l.Pods {
				placed[id]++
			}
		}
		for _, pod := range s.Pods {
			if n := placed[engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}]; n != 1 {
				t.Errorf("seed %d: pod %s is on %d machines", seed, pod.Name, n)
			}
		}
	}
}
