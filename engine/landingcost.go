package engine

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
)

// mostFurtherPlans bounds the plans that are made for pods that did not land: in a cluster, too, every such pod causes
// another launch, and its machine is spread over in turn.
const mostFurtherPlans = 3

// landPlan replays the plan and, as long as pods are stranded and further plans launch machines for them, these plans.
func landPlan(s *Snapshot, opt Options, plan *Plan, hinted bool, further int) Landing {
	r := replayOf(s, opt, plan, hinted)
	w, stranded := r.run()
	out := r.landing(w, stranded)
	if len(stranded) == 0 || further == 0 {
		return out
	}
	opt.Effort = -1 // what is left over is small; a first packing will do
	after := w.after(stranded, mostFurtherPlans-further+1)
	next := Provision(after, opt, nil)
	if len(next.Launches) > 0 {
		out.PerHour += landPlan(after, opt, next, hinted, further-1).PerHour
	}
	return out
}

// replayOf is the replay of a plan.
func replayOf(s *Snapshot, opt Options, plan *Plan, hinted bool) *Replay {
	pods := make(map[PodID]*corev1.Pod, len(s.Pods))
	for _, p := range s.Pods {
		pods[podID(p)] = p
	}
	r := &Replay{Snapshot: s, Options: opt, Launches: plan.Launches, Hints: map[PodID]string{}}
	add := func(id PodID, machine string) {
		pod := pods[id]
		if pod == nil {
			return
		}
		r.Pods = append(r.Pods, pod)
		switch {
		case pod.Spec.NodeName != "":
		case hinted && machine != "":
			r.Hints[id] = machine
		case pod.Status.NominatedNodeName != "":
			r.Hints[id] = pod.Status.NominatedNodeName
		}
	}
	for i := range plan.Launches {
		for _, id := range plan.Launches[i].Pods {
			add(id, plan.Launches[i].Name)
		}
	}
	starting := startedFor(s)
	for _, p := range plan.Placements {
		machine := ""
		if p.Claim != "" && starting[p.Pod.UID] == p.Claim {
			machine = p.Node
		}
		add(p.Pod, machine)
	}
	return r
}

// startedFor names, by pod, the claims of machines that are still starting: once they open, the pods that they were
// started for are nominated to them.
func startedFor(s *Snapshot) map[types.UID]string {
	out := map[types.UID]string{}
	for _, c := range s.NodeClaims {
		if v1.IsTrue(c, v1.ConditionInitialized) {
			continue
		}
		for _, uid := range PlannedPods(c) {
			out[types.UID(uid)] = c.Name
		}
	}
	return out
}

// after is the snapshot once everything has landed that can: planned machines are nodes with claims, so that they count
// against limits, and of the pods without a node only the stranded ones are left.
func (w *landingWorld) after(stranded []*landingPod, turn int) *Snapshot {
	s := *w.replay.Snapshot
	s.Nodes, s.NodeClaims, s.CSINodes, s.Pods = nil, nil, nil, nil
	names := make([]string, len(w.nodes))
	for i, n := range w.nodes {
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
	landed := map[PodID]string{}
	for i, p := range w.placements {
		landed[p.Pod] = names[w.landedOn[i]]
	}
	s.Pods = w.podsAfter(stranded, landed)
	return &s
}

// podsAfter are the pods that run, with those that have landed, and the stranded ones.
func (w *landingWorld) podsAfter(stranded []*landingPod, landed map[PodID]string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range w.replay.Snapshot.Pods {
		if _, ok := w.byNodeName[pod.Spec.NodeName]; ok && pod.Spec.NodeName != "" && !IsTerminal(pod) && !w.lands(w.memo.factsOf(pod)) {
			out = append(out, pod)
		}
	}
	for _, p := range w.queue {
		name, ok := landed[podID(p.pod)]
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

// predictedClaim is the claim that a launch is written down as.
func predictedClaim(s *Snapshot, n *landingNode, name string) *v1.NodeClaim {
	claim := NewClaim(findPool(s, n.launch.NodePool), *n.launch)
	claim.Name, claim.GenerateName = name, ""
	claim.Annotations = nil // the pods that it was started for have landed
	maps.Copy(claim.Labels, n.node.Labels)
	claim.CreationTimestamp = metav1.NewTime(s.Now)
	return claim
}

// asJoined is a claim whose node is there and initialized.
func asJoined(claim *v1.NodeClaim, node *corev1.Node) *v1.NodeClaim {
	out := *claim
	if isPlannedFor(claim) {
		out.Annotations = maps.Clone(claim.Annotations)
		delete(out.Annotations, PlannedPodsAnnotation)
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
