package lifecycle

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Interruption is the reaction to a notice.
type Interruption struct {
	engine.Notice
	// Claim and Node are the names of the machine's claim and node; empty if there is none.
	Claim, Node string
	// Leave means that the machine is given up: its node takes no more pods and its claim is deleted.
	Leave bool
	// AtOnce means that the machine's pods get no more time.
	AtOnce bool
	// SoldOut is the offering of Class that has no more capacity, nil if the notice does not report that.
	SoldOut *engine.OfferingID
	Class   v1.NodeClassReference
	// Event is the reason of the events about the interruption, Cause the value of the reason label of metrics.
	Event, Cause string
}

// interruptionWords are the names of notices in events and metrics, the same as in Karpenter, because users watch for them.
var interruptionWords = map[string]struct{ event, cause string }{
	engine.NoticeSpotInterruption:        {"SpotInterrupted", "spot_interrupted"},
	engine.NoticeReservationInterruption: {"CapacityReservationInstanceInterrupted", "capacity_reservation_interrupted"},
	engine.NoticeReservationExpiring:     {"CapacityReservationExpiring", "capacity_reservation_expiring"},
	engine.NoticeRebalance:               {"SpotRebalanceRecommendation", "rebalance_recommendation"},
	engine.NoticeScheduledChange:         {"InstanceUnhealthy", "scheduled_change"},
	engine.NoticeStopping:                {"InstanceStopping", "instance_stopped"},
	engine.NoticeTerminating:             {"InstanceTerminating", "instance_terminated"},
	engine.NoticeStatusCheck:             {"InstanceUnhealthy", "instance_status"},
}

// Interrupt decides the reactions to notices, in order of their IDs. A notice about a machine without a claim, or about one that is leaving
// already, has no effect; of several about one machine, only the first has one.
func Interrupt(s *engine.Snapshot, notices []engine.Notice) []Interruption {
	claims := map[engine.MachineID]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		id := engine.MachineID(c.Status.ProviderID)
		if other := claims[id]; id != "" && (other == nil || c.Name < other.Name) {
			claims[id] = c
		}
	}
	nodes := map[engine.MachineID]*corev1.Node{}
	for _, n := range s.Nodes {
		id := engine.MachineID(n.Spec.ProviderID)
		if other := nodes[id]; id != "" && (other == nil || n.Name < other.Name) {
			nodes[id] = n
		}
	}
	out := make([]Interruption, 0, len(notices))
	sorted := slices.SortedFunc(slices.Values(notices), func(a, b engine.Notice) int { return cmp.Compare(a.ID, b.ID) })
	left := map[engine.MachineID]bool{}
	for _, n := range sorted {
		x := interruptionOf(n, claims[n.Machine], nodes[n.Machine])
		x.Leave = x.Leave && !left[n.Machine]
		left[n.Machine] = left[n.Machine] || x.Leave
		out = append(out, x)
	}
	return out
}

// Close closes the node of a machine that the cloud takes away, and records the reason on the node. Close also adds the marks of a drain,
// so that the node needs no second write.
func (x Interruption) Close(node *corev1.Node) {
	if !kube.HasTaint(node, v1.DisruptedTaint()) {
		node.Spec.Taints = append(node.Spec.Taints, v1.DisruptedTaint())
	}
	if node.Annotations[v1.NoticeAnnotationKey] == "" {
		node.Annotations = kube.With(node.Annotations, v1.NoticeAnnotationKey, x.Kind)
	}
	if _, excluded := node.Labels[v1.ExcludeBalancersLabelKey]; !excluded {
		node.Labels = kube.With(node.Labels, v1.ExcludeBalancersLabelKey, v1.ExcludeBalancersValue)
	}
}

// Reopen reverses the closing of a node, for any reason.
func Reopen(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.MatchTaint(new(v1.DisruptedTaint()))
	})
	if _, noticed := node.Annotations[v1.NoticeAnnotationKey]; noticed && node.Labels[v1.ExcludeBalancersLabelKey] == v1.ExcludeBalancersValue {
		delete(node.Labels, v1.ExcludeBalancersLabelKey)
	}
	delete(node.Annotations, v1.NoticeAnnotationKey)
}

func interruptionOf(n engine.Notice, claim *v1.NodeClaim, node *corev1.Node) Interruption {
	words := interruptionWords[n.Kind]
	x := Interruption{Notice: n, Event: cmp.Or(words.event, "InstanceTerminating"), Cause: cmp.Or(words.cause, "interrupted")}
	if claim == nil {
		return x
	}
	x.Claim = claim.Name
	if node != nil {
		x.Node = node.Name
	}
	if claim.Spec.NodeClassRef != nil && n.Kind == engine.NoticeSpotInterruption {
		x.Class, x.SoldOut = *claim.Spec.NodeClassRef, spotOffering(claim)
	}
	x.Leave = n.Kind != engine.NoticeRebalance && claim.DeletionTimestamp == nil
	x.AtOnce = n.Kind == engine.NoticeStatusCheck
	return x
}

// spotOffering returns the spot offering of the claim's machine. It returns nil if the claim's labels do not name one.
func spotOffering(claim *v1.NodeClaim) *engine.OfferingID {
	id := engine.OfferingID{
		InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone],
		CapacityType: claim.Labels[v1.CapacityTypeLabelKey],
	}
	if id.InstanceType == "" || id.Zone == "" || id.CapacityType != v1.CapacityTypeSpot {
		return nil
	}
	return &id
}
