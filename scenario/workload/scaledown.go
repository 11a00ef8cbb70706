package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// ScaledDown returns the cluster two hours after its pods were planned with opt, just after a random share of them left: the input of
// consolidation. Pods with the same app label have one owner, and budgets allow the disruption of all nodes.
func ScaledDown(s *engine.Snapshot, opt engine.Options, share float64, seed uint64) *engine.Snapshot {
	s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	for _, pod := range s.Pods {
		pod.OwnerReferences = []metav1.OwnerReference{ownerOf(pod)}
	}
	s = scenario.CarryOut(s, provisioning.Plan(s, opt, nil))
	s.Now = s.Now.Add(2 * time.Hour)
	return scenario.ScaleDown(s, share, seed)
}

// ownerOf returns the ReplicaSet of the pods with the same label.
func ownerOf(pod *corev1.Pod) metav1.OwnerReference {
	app, yes := pod.Labels["app"], true
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID("rs-" + app), Controller: &yes}
}
