package lifecycle

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// orphanGrace is the age from which a machine can be an orphan: before that, the process that started it may still be writing its claim.
const orphanGrace = 30 * time.Second

// Lost lists the claims whose machine is gone, by name: they had a node, the cloud does not list the machine, and none of its nodes is Ready.
// The claims must be read before the machines are listed. A failed list must not be passed, because it looks like a cloud without machines.
func Lost(claims []*v1.NodeClaim, nodes []*corev1.Node, machines []engine.Machine) []*v1.NodeClaim {
	listed := map[string]bool{}
	for _, m := range machines {
		listed[string(m.ID)] = true
	}
	ready := map[string]bool{}
	for _, n := range nodes {
		if kube.NodeReady(n) {
			ready[n.Spec.ProviderID] = true
		}
	}
	var lost []*v1.NodeClaim
	for _, c := range claims {
		id := c.Status.ProviderID
		if c.DeletionTimestamp == nil && id != "" && kube.HasJoined(c) && !listed[id] && !ready[id] {
			lost = append(lost, c)
		}
	}
	slices.SortFunc(lost, func(a, b *v1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return lost
}

// Orphan is a machine that no claim owns.
type Orphan struct {
	Machine engine.Machine
	// Nodes are the machine's nodes to delete, as they should be before that: with our finalizer, so that their pods are evicted first.
	Nodes []*corev1.Node
	// Terminate means that the machine can be stopped now, because no pod can be running on it.
	Terminate bool
}

// Orphans lists the machines that no claim owns, by UID, provider ID or name, in order of ID. The claims must be read after the machines are
// listed, from the API server itself. classLabel is the class's label, by which the drain finds its nodes.
func Orphans(claims []*v1.NodeClaim, nodes []*corev1.Node, machines []engine.Machine, classLabel string, now time.Time) []Orphan {
	uids, ids, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range claims {
		uids[string(c.UID)], ids[c.Status.ProviderID], names[c.Name] = true, true, true
	}
	var orphans []Orphan
	for _, m := range machines {
		owned := ids[string(m.ID)] || m.ClaimUID != "" && uids[m.ClaimUID] || m.ClaimUID == "" && m.Claim != "" && names[m.Claim]
		if !owned && now.Sub(m.Created) >= orphanGrace {
			orphans = append(orphans, newOrphan(m, nodes, classLabel))
		}
	}
	slices.SortFunc(orphans, func(a, b Orphan) int { return cmp.Compare(a.Machine.ID, b.Machine.ID) })
	return orphans
}

// unknownClass is the class label of nodes that were never registered and yet run pods.
const unknownClass = "unknown"

// newOrphan decides how an orphan is removed. A node that may run pods is drained first; the drain also ends the machine. If the node lacks the class
// label that the drain needs, newOrphan adds it. Not every cloud's nodes start with the taint that keeps pods off until registration. A node with
// that taint runs no pods and is deleted with its machine.
func newOrphan(m engine.Machine, nodes []*corev1.Node, classLabel string) Orphan {
	o := Orphan{Machine: m, Terminate: !m.Leaving}
	for _, n := range nodes {
		if n.Spec.ProviderID != string(m.ID) || !inUse(n) {
			continue
		}
		if kube.NodeReady(n) {
			o.Terminate = false
		}
		closed, found := closedNode(n), n.Labels[classLabel] != ""
		if !found {
			closed = closed.DeepCopy()
			closed.Labels = kube.With(closed.Labels, classLabel, unknownClass)
		}
		if n.DeletionTimestamp == nil || !found {
			o.Nodes = append(o.Nodes, closed)
		}
	}
	slices.SortFunc(o.Nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return o
}
