package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// register finds the claim's node, writes the claim's promises on it, and opens it for pods. It returns the node with the changes to write, or nil
// if there is none. The node is written before the claim.
func register(l Life, claim *v1.NodeClaim, step *Step) *corev1.Node {
	registered := v1.IsTrue(claim, v1.ConditionRegistered)
	switch {
	case registered && !anyRegistered(l.Nodes):
		takeBack(l, claim)
		return nil
	case len(l.Nodes) == 0:
		kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", notFound(claim), l.Now)
		return nil
	case len(l.Nodes) > 1: // none of the nodes is changed
		tellSeveral(l, claim, step)
		return nil
	}
	node := draftOfNode(l.Nodes[0])
	if registered {
		if v1.GetCondition(claim, v1.ConditionRegistered).Message != "" { // there were several nodes
			kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", l.Now)
		}
		hydrate(node, claim)
		open(l, claim, node, step)
		return node
	}
	if !isSynced(node) {
		if !kube.HasTaint(node, v1.UnregisteredTaint()) && node.Labels[v1.RegisteredLabelKey] != "true" {
			step.Events = append(step.Events, engine.Event{Object: l.Claim, Warning: true, Reason: eventTaintMissing,
				Message: fmt.Sprintf("node %s joined without the taint %s; pods may have run there before its labels and taints were complete",
					node.Name, v1.UnregisteredTaintKey)})
		}
		if differ := otherFacts(node, claim); differ != "" {
			step.Events = append(step.Events, engine.Event{Object: l.Claim, Warning: true, Reason: eventOtherLabels,
				Message: fmt.Sprintf("node %s joined with %s: it carries from now on what the claim says", node.Name, differ)})
		}
		sync(node, claim)
		if l.Nominating && kube.IsPlannedFor(claim) {
			node.Spec.Taints = append(node.Spec.Taints, kube.OpeningTaint())
		}
	}
	claim.Status.NodeName = node.Name
	kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", l.Now)
	open(l, claim, node, step)
	return node
}

// OpeningPatience is the longest time for which a registered node stays closed for nominations. The limit is needed because the taint may
// keep off the pods that make the node ready.
const OpeningPatience = 30 * time.Second

// open opens the node once only the opening taint keeps pods off: first the pods are nominated, then the taint is deleted.
func open(l Life, claim *v1.NodeClaim, node *corev1.Node, step *Step) {
	if !kube.HasTaint(node, kube.OpeningTaint()) {
		return
	}
	left := inventory.WaitingSince(claim, v1.ConditionRegistered).Add(OpeningPatience).Sub(l.Now)
	if left > 0 && !couldOpen(claim, node) {
		step.by(left)
		return
	}
	step.Nominate = node.Name
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == kube.OpeningTaint().Key })
}

// couldOpen reports whether the node could take pods without the opening taint.
func couldOpen(claim *v1.NodeClaim, node *corev1.Node) bool {
	return kube.NodeReady(node) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key != kube.OpeningTaint().Key && (kube.IsEphemeralTaint(t) || kube.IsStartupTaint(claim, t) || kube.IsUndeclared(claim, t))
	})
}

// tellSeveral reports several nodes with the machine's provider ID. A claim that was registered before stays registered, because pods run there.
func tellSeveral(l Life, claim *v1.NodeClaim, step *Step) {
	var names []string
	for _, n := range l.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	message := "several nodes carry the machine's provider ID: " + strings.Join(names, ", ") + "; delete those without a kubelet"
	if c := v1.GetCondition(claim, v1.ConditionRegistered); c == nil || c.Message != message {
		step.Events = append(step.Events, engine.Event{Object: l.Claim, Warning: true, Reason: eventSeveralNodes, Message: message, Key: message})
	}
	if v1.IsTrue(claim, v1.ConditionRegistered) {
		kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", message, l.Now)
	} else {
		kube.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionFalse, eventSeveralNodes, message, l.Now)
	}
}

// isSynced reports whether an earlier step that did not reach the claim has registered the node already. Then startup taints that were deleted
// since must not return.
func isSynced(node *corev1.Node) bool {
	return node.Labels[v1.RegisteredLabelKey] == "true" && !kube.HasTaint(node, v1.UnregisteredTaint()) &&
		slices.Contains(node.Finalizers, v1.TerminationFinalizer)
}

// facts are labels that clouds and kubelets set on nodes. A claim's values of them may be predictions.
var facts = []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelArchStable, corev1.LabelOSStable}

// otherFacts lists the facts for which the node's value differs from the claim's.
func otherFacts(node *corev1.Node, claim *v1.NodeClaim) string {
	var out []string
	for _, key := range facts {
		if has, said := node.Labels[key], claim.Labels[key]; has != "" && said != "" && has != said {
			out = append(out, fmt.Sprintf("%s=%s instead of %s", key, has, said))
		}
	}
	return strings.Join(out, ", ")
}

// sync writes the claim's promises on the node and opens it. A node that the claim owns already has had its startup taints.
func sync(node *corev1.Node, claim *v1.NodeClaim) {
	if !slices.Contains(node.Finalizers, v1.TerminationFinalizer) {
		node.Finalizers = append(node.Finalizers, v1.TerminationFinalizer)
	}
	taints := v1.CoreTaints(claim.Spec.Taints)
	if own(node, claim) {
		taints = slices.Concat(taints, v1.CoreTaints(claim.Spec.StartupTaints))
	}
	if node.Labels[v1.DoNotSyncTaintsLabelKey] != "true" {
		for _, t := range taints {
			if !kube.HasTaint(node, t) {
				node.Spec.Taints = append(node.Spec.Taints, t)
			}
		}
	}
	node.Labels, node.Annotations = kube.Merged(node.Labels, claim.Labels), kube.Merged(node.Annotations, claim.Annotations)
	// The node needs no list of planned pods: only the claim's list is read.
	delete(node.Annotations, kube.PlannedPodsAnnotation)
	node.Labels[v1.RegisteredLabelKey] = "true"
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1.UnregisteredTaintKey && t.Effect == corev1.TaintEffectNoExecute
	})
}

// own makes the claim the node's owner. It returns false if the claim already was the owner.
func own(node *corev1.Node, claim *v1.NodeClaim) bool {
	for _, o := range node.OwnerReferences {
		if o.UID == claim.UID {
			return false
		}
	}
	block := true
	node.OwnerReferences = append(node.OwnerReferences, metav1.OwnerReference{
		APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &block,
	})
	return true
}

// hydrate adds the node class label to a node that was registered without it.
func hydrate(node *corev1.Node, claim *v1.NodeClaim) {
	if ref := claim.Spec.NodeClassRef; ref != nil && node.Labels[ref.LabelKey()] == "" {
		node.Labels = kube.With(node.Labels, ref.LabelKey(), ref.Name)
	}
}

// initialize checks whether the node is complete. The first missing part is the condition's reason.
func initialize(l Life, claim *v1.NodeClaim, node *corev1.Node, step *Step) {
	if v1.IsTrue(claim, v1.ConditionInitialized) {
		return
	}
	if reason, message := inventory.Uninitialized(claim, node, l.Published); reason != "" {
		kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionUnknown, reason, message, l.Now)
		return
	}
	if awaitsUndeclared(l, claim, node, step) {
		return
	}
	if pools, _ := fewerPublished(l, claim, node); awaitsDevices(l, claim, node, pools, step) {
		return
	}
	node.Labels = kube.With(node.Labels, v1.InitializedLabelKey, "true")
	kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionTrue, "", "", l.Now)
}

// devicePatience is the time for which a node that shows some of the planned devices may take to show all. After that time the shown devices are
// enough, and checkConsistency reports the difference.
const devicePatience = 2 * time.Minute

// awaitsDevices reports whether more devices are expected, from a plugin or in pools of drivers. The condition is False, not Unknown, because
// its transition time then records the first devices.
func awaitsDevices(l Life, claim *v1.NodeClaim, node *corev1.Node, pools []string, step *Step) bool {
	message := cmp.Or(inventory.FewerDevices(claim, node), strings.Join(pools, "; "))
	if message == "" || l.Now.Sub(inventory.ReadySince(claim, []*corev1.Node{node})) >= inventory.ResourceTimeout {
		return false
	}
	since := l.Now
	if c := v1.GetCondition(claim, v1.ConditionInitialized); c != nil && c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	left := since.Add(devicePatience).Sub(l.Now)
	if left <= 0 {
		return false
	}
	kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionFalse, "DevicesIncomplete", message, l.Now)
	step.by(left)
	return true
}

// fewerPublished lists, for the drivers of claimed devices, those with fewer pools, and those with fewer devices, than expected of the node's
// type.
func fewerPublished(l Life, claim *v1.NodeClaim, node *corev1.Node) (pools, devices []string) {
	if l.Published == nil {
		return nil, nil
	}
	var sold *engine.InstanceType
	kind := node.Labels[corev1.LabelInstanceTypeStable]
	if l.Class != nil {
		if at := slices.IndexFunc(l.Class.InstanceTypes, func(t engine.InstanceType) bool { return t.Name == kind }); at >= 0 {
			sold = &l.Class.InstanceTypes[at]
		}
	}
	expected := inventory.ExpectedDevices(l.Pool, kind, sold)
	for _, driver := range kube.DriversAskedFor(claim) {
		wantPools, want := 0, 0
		for i := range expected {
			if expected[i].Driver == driver {
				wantPools, want = wantPools+1, want+len(expected[i].Devices)
			}
		}
		havePools, have := l.Published.Devices(node, driver)
		if havePools < wantPools {
			pools = append(pools, fmt.Sprintf("driver %s has published %d of %d pools of devices so far", driver, havePools, wantPools))
		}
		if have > 0 && have < want { // a driver under replacement withdraws all devices for a while
			devices = append(devices, fmt.Sprintf("expected %d devices of driver %s, but it has published %d", want, driver, have))
		}
	}
	return pools, devices
}

// checkConsistency compares the node's capacity with the cloud's prediction.
func checkConsistency(l Life, claim *v1.NodeClaim, node *corev1.Node, step *Step) {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		expected, found := claim.Status.Capacity[name], node.Status.Capacity[name]
		if wanted := claim.Spec.Resources.Requests[name]; wanted.IsZero() || expected.IsZero() {
			continue
		}
		if share := found.AsApproximateFloat64() / expected.AsApproximateFloat64(); share < 0.9 {
			problems = append(problems, fmt.Sprintf("expected %s of resource %s, but found %s (%.1f%% of expected)",
				expected.String(), name, found.String(), share*100))
		}
	}
	_, devices := fewerPublished(l, claim, node)
	problems = append(problems, devices...)
	if len(problems) == 0 {
		kube.SetCondition(claim, v1.ConditionConsistentStateFound, metav1.ConditionTrue, "", "", l.Now)
		return
	}
	message := strings.Join(problems, "; ")
	if c := v1.GetCondition(claim, v1.ConditionConsistentStateFound); c == nil || c.Message != message {
		step.Events = append(step.Events, engine.Event{Object: l.Claim, Warning: true, Reason: eventInconsistent, Message: message, Key: message})
	}
	kube.SetCondition(claim, v1.ConditionConsistentStateFound, metav1.ConditionFalse, "ConsistencyCheckFailed", message, l.Now)
}
