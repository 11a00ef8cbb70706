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

// orphanGrace is how old a machine must be before it counts as left behind: whoever started it may still be writing down
// that it did.
const orphanGrace = 30 * time.Second

// Lost lists the claims whose machine is gone, in order of name: registered once, not listed by the cloud, and with no node
// that still says it is Ready. The claims must have been read before the machines were listed. A list that failed must
// not be handed in: it looks like a cloud without machines.
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
	// Nodes are the machine's nodes that are to be deleted, as they should be before that: they carry our finalizer, so
	// that their pods are sent away first.
	Nodes []*corev1.Node
	// Terminate says that the machine can be stopped now, because no pod can be running on it.
	Terminate bool
}

// Orphans lists the machines that no claim owns, by UID, provider ID or name, in order of ID. The claims must have been
// read after the machines were listed, from the API server itself. Whoever drains nodes knows its own by classLabel, the label of
// their class.
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

// unknownClass is the class of nodes that were never registered and yet run pods.
const unknownClass = "unknown"

// newOrphan decides how an orphan goes. A node that still runs pods is drained first, like any other; draining it ends
// the machine too. It may lack the label by which it is found for that: not every cloud's nodes come with the taint that keeps
// pods off until they are registered. A node that has that taint holds nothing up: no pod runs there. It goes with its machine.
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
