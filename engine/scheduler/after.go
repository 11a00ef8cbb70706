package scheduler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// StartedFor returns, by pod UID, the claims of machines that are still starting. Once such a machine is ready, its planned pods are nominated to it.
func StartedFor(s *engine.Snapshot) map[types.UID]string {
	out := map[types.UID]string{}
	for _, c := range s.NodeClaims {
		if v1.IsTrue(c, v1.ConditionInitialized) {
			continue
		}
		for _, uid := range kube.PlannedPods(c) {
			out[types.UID(uid)] = c.Name
		}
	}
	return out
}

// After returns the snapshot after all landings. Planned machines are nodes with claims, because limits include them. Of the pods without a node,
// only the stranded ones are left.
func (state *replayState) After(stranded []*podInfo, turn int) *engine.Snapshot {
	s := *state.replay.Snapshot
	s.Nodes, s.NodeClaims, s.CSINodes, s.Pods = nil, nil, nil, nil
	names := make([]string, len(state.nodes))
	for i, n := range state.nodes {
		node, claim, csi := *n.node, n.claim, n.csi
		if n.launch != nil {
			claim = predictedClaim(&s, n, fmt.Sprintf("landing-%d-%d", turn, i))
			node.Name, node.Labels = claim.Name, maps.Clone(node.Labels)
			node.Labels[corev1.LabelHostname] = node.Name
		}
		if claim != nil {
			claim = asJoined(claim, &node)
			node.Spec.ProviderID = claim.Status.ProviderID
			s.NodeClaims = append(s.NodeClaims, claim)
		}
		if csi != nil {
			renamed := *csi
			renamed.Name = node.Name
			s.CSINodes = append(s.CSINodes, &renamed)
		}
		names[i] = node.Name
		s.Nodes = append(s.Nodes, &node)
	}
	landed := map[engine.PodID]string{}
	for i, p := range state.placements {
		landed[p.Pod] = names[state.landedOn[i]]
	}
	s.Pods = state.podsAfter(stranded, landed)
	return &s
}

// podsAfter returns the running pods, the landed pods and the stranded pods.
func (state *replayState) podsAfter(stranded []*podInfo, landed map[engine.PodID]string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range state.replay.Snapshot.Pods {
		if _, ok := state.byNodeName[pod.Spec.NodeName]; ok && pod.Spec.NodeName != "" && !kube.IsTerminal(pod) && !state.lands(state.cache.InfoOf(pod)) {
			out = append(out, pod)
		}
	}
	for _, p := range state.queue {
		name, ok := landed[kube.PodID(p.pod)]
		if !ok {
			continue
		}
		pod := *p.pod
		pod.Spec.NodeName, pod.Status.NominatedNodeName = name, ""
		out = append(out, &pod)
	}
	for _, p := range stranded {
		pod := *p.pod
		pod.Spec.NodeName, pod.Status.NominatedNodeName = "", ""
		pod.DeletionTimestamp = nil
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		out = append(out, &pod)
	}
	return out
}

// predictedClaim returns the claim that stores the launch.
func predictedClaim(s *engine.Snapshot, n *nodeInfo, name string) *v1.NodeClaim {
	claim := kube.NewClaim(kube.FindPool(s, n.launch.NodePool), *n.launch)
	claim.Name, claim.GenerateName = name, ""
	claim.Annotations = nil // its planned pods have landed
	maps.Copy(claim.Labels, n.node.Labels)
	claim.CreationTimestamp = metav1.NewTime(s.Now)
	return claim
}

// asJoined returns the claim as one that has this node and no planned pods.
func asJoined(claim *v1.NodeClaim, node *corev1.Node) *v1.NodeClaim {
	out := *claim
	if kube.IsPlannedFor(claim) {
		out.Annotations = maps.Clone(claim.Annotations)
		delete(out.Annotations, kube.PlannedPodsAnnotation)
	}
	if out.Status.ProviderID == "" {
		out.Status.ProviderID = "landing://" + out.Name
	}
	out.Status.NodeName = node.Name
	if len(out.Status.Allocatable) == 0 {
		out.Status.Capacity, out.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	}
	out.Status.Conditions = slices.Clone(out.Status.Conditions)
	return &out
}
