package oracle

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// A machine is a node that kube-scheduler cannot know yet: a launch of the plan, or a claim without a ready node.
type machine struct {
	name  string
	looks []look // its possible nodes, by zone, the smallest first
}

type look struct {
	zone string
	node *corev1.Node
	csi  *storagev1.CSINode
}

// zones lists the zones of the machine's looks, each once.
func (m *machine) zones() []string {
	var zones []string
	for _, l := range m.looks {
		if !slices.Contains(zones, l.zone) {
			zones = append(zones, l.zone)
		}
	}
	return zones
}

// smallest returns the smallest look in the machine's zone in this world.
func (m *machine) smallest(world int) look {
	zones := m.zones()
	zone := zones[world%len(zones)]
	return m.looks[slices.IndexFunc(m.looks, func(l look) bool { return l.zone == zone })]
}

func (m *machine) sort() {
	slices.SortStableFunc(m.looks, func(a, b look) int {
		if a.zone != b.zone {
			return cmp.Compare(a.zone, b.zone)
		}
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
			x, y := a.node.Status.Allocatable[resource], b.node.Status.Allocatable[resource]
			if c := x.Cmp(y); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.node.Labels[corev1.LabelInstanceTypeStable], b.node.Labels[corev1.LabelInstanceTypeStable])
	})
}

// launched returns the machine of a launch. unknown lists its offerings without a predicted node.
func (j *Judge) launched(s *engine.Snapshot, l *engine.Launch) (m *machine, unknown []engine.OfferingID) {
	m = &machine{name: nodeNameOf(l)}
	for _, o := range l.Offerings {
		node, csi := j.predict(s, l, o.OfferingID)
		if node == nil {
			unknown = append(unknown, o.OfferingID)
			continue
		}
		m.looks = append(m.looks, lookOf(m.name, node, csi))
	}
	m.sort()
	return m, unknown
}

func lookOf(name string, node *corev1.Node, csi *storagev1.CSINode) look {
	node = node.DeepCopy()
	node.Name, node.UID = name, ""
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[corev1.LabelHostname] = name
	if csi != nil {
		csi = csi.DeepCopy()
		csi.Name = name
	}
	return look{zone: node.Labels[corev1.LabelTopologyZone], node: node, csi: csi}
}

// claimed returns the machine of a claim without a node. Its looks are the offerings that the claim's requirements and labels admit.
func (j *Judge) claimed(s *engine.Snapshot, claim *v1.NodeClaim) *machine {
	m := &machine{name: claim.Name}
	l := &engine.Launch{
		Name: claim.Name, NodePool: claim.Labels[v1.NodePoolLabelKey], Labels: claim.Labels,
		Requirements: claim.Spec.Requirements, Offerings: openOfferings(s, claim),
	}
	for _, o := range l.Offerings {
		node, csi := j.predict(s, l, o.OfferingID)
		if node == nil {
			continue
		}
		look := lookOf(m.name, node, csi)
		maps.Copy(look.node.Labels, claim.Labels)
		look.node.Spec.Taints = v1.CoreTaints(claim.Spec.Taints)
		if len(claim.Status.Allocatable) > 0 {
			look.node.Status.Allocatable = claim.Status.Allocatable
		}
		m.looks = append(m.looks, look)
	}
	if len(m.looks) == 0 { // its type is no longer in the catalog
		node := &corev1.Node{}
		node.Labels = maps.Clone(claim.Labels)
		node.Spec.Taints = v1.CoreTaints(claim.Spec.Taints)
		node.Status.Allocatable = claim.Status.Allocatable
		m.looks = append(m.looks, lookOf(m.name, node, nil))
	}
	m.sort()
	return m
}

// ready returns the machine of a node that is still starting, as it will be after its initialization.
func (j *Judge) ready(s *engine.Snapshot, node *corev1.Node, claim *v1.NodeClaim) *machine {
	m := j.claimed(s, claim)
	end := node.DeepCopy()
	if end.Labels == nil {
		end.Labels = map[string]string{}
	}
	if node.Labels[v1.RegisteredLabelKey] != "true" {
		maps.Copy(end.Labels, claim.Labels)
		end.Spec.Taints = append(end.Spec.Taints, v1.CoreTaints(claim.Spec.Taints)...)
	}
	end.Spec.Taints = slices.DeleteFunc(end.Spec.Taints, func(t corev1.Taint) bool {
		return kube.IsEphemeralTaint(t) || kube.IsUndeclared(claim, t) || slices.ContainsFunc(claim.Spec.StartupTaints, func(s v1.Taint) bool {
			return s.Key == t.Key && s.Effect == t.Effect
		})
	})
	if end.Status.Allocatable == nil {
		end.Status.Allocatable = corev1.ResourceList{}
	}
	for name, q := range claim.Status.Allocatable {
		if have, ok := end.Status.Allocatable[name]; !ok || have.IsZero() {
			end.Status.Allocatable[name] = q
		}
	}
	first := m.looks[0]
	if len(end.Status.DeclaredFeatures) == 0 {
		end.Status.DeclaredFeatures = first.node.Status.DeclaredFeatures
	}
	l := look{zone: end.Labels[corev1.LabelTopologyZone], node: end, csi: first.csi}
	if l.csi != nil {
		l.csi.Name = node.Name
	}
	for _, c := range s.CSINodes {
		if c.Name == node.Name {
			l.csi = c
		}
	}
	return &machine{name: node.Name, looks: []look{l}}
}

// openOfferings lists the offerings with which the cloud may still meet the claim.
func openOfferings(s *engine.Snapshot, claim *v1.NodeClaim) []engine.LaunchOffering {
	var open, soldOut []engine.LaunchOffering
	for i := range s.Classes {
		if claim.Spec.NodeClassRef == nil || s.Classes[i].Ref != *claim.Spec.NodeClassRef {
			continue
		}
		for _, t := range s.Classes[i].InstanceTypes {
			for _, o := range t.Offerings {
				if !meets(claim, &t, o) {
					continue
				}
				id := engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
				if o.SoldOut {
					soldOut = append(soldOut, engine.LaunchOffering{OfferingID: id, Price: o.Price})
					continue
				}
				open = append(open, engine.LaunchOffering{OfferingID: id, Price: o.Price})
			}
		}
	}
	if len(open) == 0 { // the machine was bought before the offering was sold out
		return soldOut
	}
	return open
}

// meets reports whether the claim's labels and its In requirements admit the offering. Other requirements of the pool need no check, because
// they were met when the claim was written.
func meets(claim *v1.NodeClaim, t *engine.InstanceType, o engine.Offering) bool {
	have := map[string]string{
		corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType,
	}
	for key, value := range have {
		if l, ok := claim.Labels[key]; ok && l != value {
			return false
		}
	}
	for _, r := range claim.Spec.Requirements {
		if value, ok := have[r.Key]; ok && r.Operator == v1.In && !slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}
