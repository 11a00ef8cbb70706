package lifecycle

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Interruption is what to do about a notice.
type Interruption struct {
	engine.Notice
	// Claim and Node are the names of the machine's claim and node; empty if there is none.
	Claim, Node string
	// Leave says that the machine is to be left: its node takes no more pods and its claim is deleted.
	Leave bool
	// AtOnce says that its pods get no more time.
	AtOnce bool
	// SoldOut is the offering of Class that has no more capacity, nil if the notice does not say so.
	SoldOut *engine.OfferingID
	Class   v1.NodeClassReference
	// Event is the reason of the events that tell of it, Cause the value of the reason label of metrics.
	Event, Cause string
}

// interruptionWords are what a kind of notice is called in events and metrics; those who watch for them know them from
// Karpenter.
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

// Interrupt decides what to do about notices, in order of their IDs. A notice about a machine that nobody here owns, or
// that is leaving already, asks for nothing; of several about one machine the first does.
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

// Close closes the node of a machine that the cloud takes away, and says on it why it goes. What a drain would add is there
// too, so that the node need not be written to once more.
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

// Reopen takes back that a node was closed, for whatever reason.
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

// spotOffering is what the claim's machine was bought as, nil if its labels do not say so.
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
