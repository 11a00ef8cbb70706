package lifecycle

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/kube"
)

// Workload is a controller of pods on a leaving node: a ReplicaSet, a StatefulSet, a Job, or any other controller that the pods' owner references
// name. A DaemonSet is no Workload, because its pods are deleted with the node.
type Workload struct {
	// Kind and Name are those of the controller.
	Kind, Name string
	// Replicas is the number of pods that the controller wants, below zero if unknown.
	Replicas int
	// Stuck means that the controller cannot create pods, for example because of a quota. Then missing pods are not treated as away.
	Stuck bool
	// Pods are all pods of the controller, on any node.
	Pods []*corev1.Pod
}

// NewWorkload returns the workload of a pod's owner reference. object is the controller itself, nil or another object if it is unknown; pods are
// its pods.
func NewWorkload(owner metav1.OwnerReference, object metav1.Object, pods []*corev1.Pod) *Workload {
	w := &Workload{Kind: owner.Kind, Name: owner.Name, Replicas: -1, Pods: pods}
	if object == nil || object.GetUID() != owner.UID {
		return w
	}
	replicas := func(n *int32) int {
		if n == nil {
			return 1
		}
		return int(*n)
	}
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		w.Replicas = replicas(o.Spec.Replicas)
		w.Stuck = slices.ContainsFunc(o.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
		})
	case *corev1.ReplicationController:
		w.Replicas = replicas(o.Spec.Replicas)
	case *appsv1.StatefulSet:
		w.Replicas = replicas(o.Spec.Replicas)
	}
	return w
}

const (
	// workloadCheck is the time between two looks of a drain that waits for a workload's other pods.
	workloadCheck = 2 * time.Second
	// longestWait is the longest time for which a pod without a node holds a drain for drift or expiry. A drain for consolidation waits
	// without limit, because consolidation only saves money.
	longestWait = 10 * time.Minute
)

// ByChoice reports whether Tenon removes the claim's nodes for consolidation, drift or expiry, and the cloud has given no notice. Only such a
// drain waits for workloads.
func ByChoice(claim *v1.NodeClaim, nodes []*corev1.Node) bool {
	taken := func(n *corev1.Node) bool { return n.Annotations[v1.NoticeAnnotationKey] != "" } // the cloud does not wait
	switch causeOf(claim) {
	case v1.Underutilized, v1.Empty, v1.Drifted, v1.Expired:
		return !slices.ContainsFunc(nodes, taken)
	}
	return false
}

// causeOf returns why the claim's nodes leave. It returns "" if the cause is not recorded.
func causeOf(claim *v1.NodeClaim) v1.DisruptionReason {
	if claim == nil || !v1.IsTrue(claim, v1.ConditionDisruptionReason) {
		return ""
	}
	return v1.DisruptionReason(v1.GetCondition(claim, v1.ConditionDisruptionReason).Reason)
}

// mayGo reports whether the pod may be evicted now: a drain by choice leaves at least half of a workload's pods in place until others are ready, even
// without a PodDisruptionBudget. If it returns true, it adds the pod to the pods that are away.
func (term *termination) mayGo(pod *corev1.Pod) bool {
	w := term.workloadOf(pod)
	if w == nil || !term.isThere(pod) {
		return true
	}
	uid := kube.WorkloadOf(pod)
	left, known := term.mayBeAway[uid]
	if !known {
		wanted, away := term.countAway(w)
		left = (wanted+1)/2 - away
	}
	if term.mayBeAway == nil {
		term.mayBeAway = map[types.UID]int{}
	}
	if left <= 0 {
		term.mayBeAway[uid] = left
		term.step.by(workloadCheck)
		return false
	}
	term.mayBeAway[uid] = left - 1
	return true
}

// workloadOf returns the workload for whose other pods the pod may have to wait. It returns nil if there is none.
func (term *termination) workloadOf(pod *corev1.Pod) *Workload {
	if !ByChoice(term.claim, term.nodes) {
		return nil
	}
	return term.Workloads[kube.WorkloadOf(pod)]
}

// countAway returns the number of pods that the workload wants, and the number of them that are away.
func (term *termination) countAway(w *Workload) (wanted, away int) {
	there, listed := 0, 0
	for _, p := range w.Pods {
		if kube.IsTerminal(p) {
			continue
		}
		listed++
		if term.isThere(p) {
			there++
		}
	}
	wanted = w.Replicas
	if wanted < 0 || w.Stuck {
		wanted = listed
	}
	return wanted, max(0, wanted-there)
}

// isThere reports whether the pod is ready, or is unready for another reason than a drain.
func (term *termination) isThere(p *corev1.Pod) bool {
	switch {
	case term.Sent[p.UID] || kube.IsTerminating(p):
		return false
	case p.Spec.NodeName == "":
		return causeOf(term.claim) != v1.Underutilized && term.Now.Sub(p.CreationTimestamp.Time) >= longestWait
	}
	return !budget.IsAway(p, term.Now)
}

// waitsFor describes the pods of its workload for which the pod waits. It returns "" if there is none.
func (term *termination) waitsFor(pod *corev1.Pod) string {
	w := term.workloadOf(pod)
	if w == nil || !term.isThere(pod) {
		return ""
	}
	wanted, away := term.countAway(w)
	if away < (wanted+1)/2 {
		return ""
	}
	return fmt.Sprintf("pod %s waits until more pods of %s %s are ready: %d of %d are away, and no more than half may be", kube.PodID(pod), w.Kind, w.Name, away, wanted)
}
