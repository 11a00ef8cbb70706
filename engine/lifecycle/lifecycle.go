package lifecycle

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// longestMessage bounds the bytes of a cloud's error in a condition.
const longestMessage = 1024

// Next decides the next step of one claim, from the first finalizer to the last. It reads only l and does not change it; the same input always
// gives the same step.
func Next(l Life) Step {
	switch {
	case l.Claim == nil:
		return terminate(l)
	case l.Claim.DeletionTimestamp != nil:
		if !slices.Contains(l.Claim.Finalizers, v1.TerminationFinalizer) {
			return Step{}
		}
		return terminate(l)
	}
	if claim := adopted(l.Claim); claim != l.Claim {
		return Step{Claim: claim}
	}
	if kube.HasJoined(l.Claim) && !anyRegistered(l.Nodes) && !l.Sought {
		return Step{Ask: AskNode}
	}
	if d, wait := overdue(l); d != nil {
		step := Step{Delete: d}
		if d.Cause == engine.CauseGarbageCollected {
			step.Events = append(step.Events, tellNodeGone(l.Claim))
		}
		return step
	} else if !v1.IsTrue(l.Claim, v1.ConditionLaunched) {
		step := Step{Launch: true}
		step.by(wait)
		return step
	} else {
		return live(l, wait)
	}
}

// adopted adds the marks that a claim needs before its machine is started: the finalizer, because otherwise a deletion could leave the machine
// behind, and the label of its node class.
func adopted(claim *v1.NodeClaim) *v1.NodeClaim {
	ref := claim.Spec.NodeClassRef
	labelled := ref == nil || claim.Labels[ref.LabelKey()] != ""
	if labelled && slices.Contains(claim.Finalizers, v1.TerminationFinalizer) {
		return claim
	}
	claim = claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, v1.TerminationFinalizer) {
		claim.Finalizers = append(claim.Finalizers, v1.TerminationFinalizer)
	}
	if !labelled {
		claim.Labels = kube.With(claim.Labels, ref.LabelKey(), ref.Name)
	}
	return claim
}

// live returns the step of a launched claim that is not being deleted.
func live(l Life, wait time.Duration) Step {
	var step Step
	if wait > 0 {
		step.by(wait)
	}
	claim := draftOf(l.Claim)
	restamp(claim, l.Now)
	node := register(l, claim, &step)
	if node != nil && v1.IsTrue(claim, v1.ConditionRegistered) {
		learnTaints(l, claim, node, &step)
		initialize(l, claim, node, &step)
	}
	if node != nil && v1.IsTrue(claim, v1.ConditionInitialized) {
		checkConsistency(l, claim, node, &step)
	}
	observePods(l, claim)
	observeDrift(l, claim, &step)
	consolidatable(l, claim, &step)
	if node != nil && !sameNode(node, l.Nodes[0]) {
		step.Nodes = append(step.Nodes, node.DeepCopy())
	}
	step.Claim = changed(l.Claim, claim)
	return step
}

// Launched returns the claim after the start of its machine. The claim's own labels take precedence, because they were promised to pods; for
// annotations, the machine's do.
func Launched(claim *v1.NodeClaim, m engine.Machine, now time.Time) *v1.NodeClaim {
	claim = claim.DeepCopy()
	labels, annotations := map[string]string{}, map[string]string{}
	for _, from := range []map[string]string{m.Labels, claim.Labels} {
		for k, v := range from {
			labels[k] = v
		}
	}
	for _, from := range []map[string]string{claim.Annotations, m.Annotations} {
		for k, v := range from {
			annotations[k] = v
		}
	}
	claim.Labels, claim.Annotations = labels, annotations
	claim.Status.ProviderID = string(m.ID)
	claim.Status.ImageID = m.ImageID
	claim.Status.Capacity = m.Capacity.DeepCopy()
	claim.Status.Allocatable = m.Allocatable.DeepCopy()
	kube.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionTrue, "", "", now)
	if v1.GetCondition(claim, v1.ConditionRegistered).Reason == v1.ReasonAwaitingReconciliation {
		kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", "the machine has not joined the cluster yet", now)
	}
	return claim
}

// LaunchFailed returns the claim after a launch that will be tried again.
func LaunchFailed(claim *v1.NodeClaim, reason, message string, now time.Time) *v1.NodeClaim {
	claim = claim.DeepCopy()
	kube.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionUnknown, reason, CutMessage(message), now)
	return claim
}

// reasonPending is the reason of the condition Launched while a machine starts that has no ID yet.
const reasonPending = "MachinePending"

// LaunchPending returns the claim while its machine starts and has no ID yet; the text what describes the expected event.
func LaunchPending(claim *v1.NodeClaim, what string, now time.Time) *v1.NodeClaim {
	return LaunchFailed(claim, reasonPending, what, now)
}

func isPending(claim *v1.NodeClaim) bool {
	c := v1.GetCondition(claim, v1.ConditionLaunched)
	return c != nil && c.Reason == reasonPending
}

// NothingStarted reports whether it is certain that no machine was started for a claim that ended for the cause. A claim with the mark of a
// launch request may have got a machine, even if the process ended before it recorded the machine.
func NothingStarted(claim *v1.NodeClaim, cause string) bool {
	return claim.Status.ProviderID == "" && (cause == engine.CauseInsufficientCapacity || !IsForetold(claim))
}

// IsForetold reports whether the claim has the mark that its launch is about to be requested. Only the provider knows whether the request is
// still open, even while its node class is unusable.
func IsForetold(claim *v1.NodeClaim) bool {
	return claim.Annotations[v1.LaunchTokenAnnotationKey] != "" || claim.Annotations[v1.MachineDeploymentAnnotationKey] != ""
}

// CutMessage shortens a cloud's error for conditions and events.
func CutMessage(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage-3], "") + "..."
}

// restamp marks the conditions as observed for the claim's newest generation.
func restamp(claim *v1.NodeClaim, now time.Time) {
	for _, t := range claim.DependentConditions() {
		if c := v1.GetCondition(claim, t); c != nil && c.ObservedGeneration != claim.Generation {
			kube.SetCondition(claim, t, c.Status, c.Reason, c.Message, now)
		}
	}
}

// draftOf returns a copy of the claim for a step to change. The step may change its plain values, finalizers and owners. The draft shares
// everything else with the claim, because most steps change nothing. kube.With and kube.SetCondition replace labels, annotations and conditions as
// a whole.
func draftOf(claim *v1.NodeClaim) *v1.NodeClaim {
	draft := *claim
	draft.ObjectMeta = draftMeta(claim.ObjectMeta)
	return &draft
}

// draftOfNode returns a copy of a node for a step to change: the node's metadata and its taints.
func draftOfNode(node *corev1.Node) *corev1.Node {
	draft := *node
	draft.ObjectMeta = draftMeta(node.ObjectMeta)
	draft.Spec.Taints = slices.Clone(node.Spec.Taints)
	return &draft
}

func draftMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.Finalizers, meta.OwnerReferences = slices.Clone(meta.Finalizers), slices.Clone(meta.OwnerReferences)
	return meta
}

// changed returns a copy of the draft. It returns nil if the draft equals the claim before.
func changed(before, draft *v1.NodeClaim) *v1.NodeClaim {
	if sameMeta(before, draft) && sameStatus(before.Status, draft.Status) {
		return nil
	}
	return draft.DeepCopy()
}

// sameMeta compares the metadata that steps change. It compares no more than necessary, because these comparisons run often for every claim, and
// most find no difference.
func sameMeta(a, b metav1.Object) bool {
	return sameMap(a.GetLabels(), b.GetLabels()) && sameMap(a.GetAnnotations(), b.GetAnnotations()) && slices.Equal(a.GetFinalizers(), b.GetFinalizers())
}

func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

func sameStatus(a, b v1.NodeClaimStatus) bool {
	shared := len(a.Conditions) > 0 && len(a.Conditions) == len(b.Conditions) && &a.Conditions[0] == &b.Conditions[0]
	same := shared || slices.EqualFunc(a.Conditions, b.Conditions, func(x, y metav1.Condition) bool {
		at := x.LastTransitionTime.Equal(&y.LastTransitionTime)
		x.LastTransitionTime, y.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return at && x == y
	})
	a.Capacity, a.Allocatable, b.Capacity, b.Allocatable = nil, nil, nil, nil // a draft shares them
	a.Conditions, b.Conditions = nil, nil                                     // reflection is slow
	return same && equality.Semantic.DeepEqual(a, b)
}

// sameNode compares the parts of a node that steps change: metadata, owners and taints.
func sameNode(a, b *corev1.Node) bool {
	return sameMeta(a, b) && slices.Equal(a.OwnerReferences, b.OwnerReferences) && slices.Equal(a.Spec.Taints, b.Spec.Taints)
}
