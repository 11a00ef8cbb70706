package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
)

const RegistrationTimeout = 15 * time.Minute

// ResourcePatience is how long after its node is ready a requested resource may be missing before plans no longer use the machine, because the driver
// of a device takes minutes to be installed. The machine is removed after ResourceTimeout, which leaves time to record the missing resource.
const ResourcePatience, ResourceTimeout = 15 * time.Minute, 30 * time.Minute

// ReadySince returns since when the claim's registered nodes have been ready, or not ready.
func ReadySince(claim *v1.NodeClaim, nodes []*corev1.Node) time.Time {
	at := WaitingSince(claim, v1.ConditionRegistered)
	for _, node := range nodes {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				at = kube.Latest(at, c.LastTransitionTime.Time)
			}
		}
	}
	return at
}

// WaitingSince returns when the condition last changed its status. For a missing condition, it returns the creation time of the claim.
func WaitingSince(claim *v1.NodeClaim, condition string) time.Time {
	if c := v1.GetCondition(claim, condition); c != nil {
		return c.LastTransitionTime.Time
	}
	return claim.CreationTimestamp.Time
}

// nodeLag is how far the watch of nodes may be behind that of claims.
const nodeLag = 10 * time.Second

// isBare reports whether the node was created after the claim's machine was registered, and lacks the label of registered nodes: the registered node
// was deleted.
func isBare(node *corev1.Node, claim *v1.NodeClaim) bool {
	created := node.CreationTimestamp
	return v1.IsTrue(claim, v1.ConditionRegistered) && node.Labels[v1.RegisteredLabelKey] != "true" &&
		(created.IsZero() || created.After(kube.TrueSince(claim, v1.ConditionRegistered)))
}

// IsGone reports whether the machine has lost its node: it costs money, and no pod can run there. For a moment after the registration, the
// snapshot may not show the node yet.
func (m *MachineInfo) IsGone(now time.Time) bool {
	if m.Node != nil || !kube.HasJoined(m.Claim) {
		return false
	}
	return !v1.IsTrue(m.Claim, v1.ConditionRegistered) || now.Sub(kube.TrueSince(m.Claim, v1.ConditionRegistered)) > nodeLag
}

// NodeGone returns the reason why plans do not use a machine that has lost its node.
func (m *Machine) NodeGone() engine.Reason {
	return engine.Reason{Code: engine.NodeGone, NodePool: m.Pool(), Need: cmp.Or(m.Claim.Status.NodeName, m.Claim.Name)}
}

const resourceNotRegistered, poolsNotPublished = "ResourceNotRegistered", "DRADriverPoolsNotPublished"

// MissesResource reports whether only a requested resource, or devices that pods claim, keep the node from being initialized.
func MissesResource(claim *v1.NodeClaim, node *corev1.Node, published *dra.Published) bool {
	reason, _ := Uninitialized(claim, node, published)
	return reason == resourceNotRegistered || reason == poolsNotPublished
}

// Uninitialized returns why the claim's registered node is not initialized. It returns "" if nothing keeps it from that. If published is nil,
// claims for devices are not acted on, and the node does not wait for them.
func Uninitialized(claim *v1.NodeClaim, node *corev1.Node, published *dra.Published) (reason, message string) {
	if !kube.NodeReady(node) {
		return "NodeNotReady", "the node's Ready condition is not True"
	}
	for _, t := range v1.CoreTaints(claim.Spec.StartupTaints) {
		if kube.HasTaint(node, t) {
			return "StartupTaintsExist", fmt.Sprintf("startup taint %s is still on the node", t.ToString())
		}
	}
	for _, t := range node.Spec.Taints {
		if kube.IsEphemeralTaint(t) {
			return "KnownEphemeralTaintsExist", fmt.Sprintf("taint %s is still on the node", t.ToString())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		wanted := claim.Spec.Resources.Requests[name]
		have := node.Status.Allocatable[name]
		if !wanted.IsZero() && have.IsZero() {
			message := fmt.Sprintf("the node does not offer resource %s yet", name)
			if overlay := kube.OverlayOf(claim, name); overlay != "" {
				message += fmt.Sprintf(", which NodeOverlay %s says that it will have", overlay)
			}
			return resourceNotRegistered, message
		}
	}
	if lacks := LackedDevices(claim, node, published); lacks != "" {
		return poolsNotPublished, lacks + " for the node so far, and pods claim its devices"
	}
	return "", ""
}

// LackedDevices names a driver that has not published devices for the node although the machine was bought for them. It returns "" if there is
// none.
func LackedDevices(claim *v1.NodeClaim, node *corev1.Node, published *dra.Published) string {
	if drivers := kube.DriversAskedFor(claim); published != nil && len(drivers) > 0 {
		return published.Lacks(node, drivers)
	}
	return ""
}

// FewerDevices names a requested accelerator of which the node shows some devices, but fewer than planned. It returns "" if there is none. A device
// plugin may show its devices one after the other.
func FewerDevices(claim *v1.NodeClaim, node *corev1.Node) string {
	for _, name := range slices.Sorted(maps.Keys(accelerator.Of(claim.Spec.Resources.Requests))) {
		planned, have := claim.Status.Allocatable[name], node.Status.Allocatable[name]
		if !have.IsZero() && have.Cmp(planned) < 0 {
			return fmt.Sprintf("the node shows %s of %s %s so far", have.String(), planned.String(), name)
		}
	}
	return ""
}

// foreseen returns the resources that a node will have once it is initialized: its present ones, and all planned ones that are not there
// yet.
func foreseen(has, planned corev1.ResourceList) corev1.ResourceList {
	out := kube.Filled(has, planned)
	for name, q := range accelerator.Of(planned) {
		if have := out[name]; have.Cmp(q) < 0 {
			out[name] = q
		}
	}
	return out
}
