package scenario

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// WriteDown is the cluster a moment after the plan was acted on: every launch is a NodeClaim without a machine, every
// disrupted node is being removed, and no pod has moved yet.
func WriteDown(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot {
	out := clone(s)
	for _, l := range plan.Launches {
		writeClaim(&out, l)
	}
	for _, d := range plan.Disruptions {
		for _, l := range d.Replacements {
			writeClaim(&out, l)
		}
		for _, node := range d.Nodes {
			markLeaving(&out, node)
		}
	}
	return &out
}

// writeClaim adds the launch's claim under the launch's name.
func writeClaim(s *engine.Snapshot, l engine.Launch) *v1.NodeClaim {
	c := engine.NewClaim(poolNamed(s, l.NodePool), l)
	c.Name, c.GenerateName = l.Name, ""
	for i := 2; slices.ContainsFunc(s.NodeClaims, func(o *v1.NodeClaim) bool { return o.Name == c.Name }); i++ {
		c.Name = numberedName(l.Name, i)
	}
	c.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim"}
	c.UID, c.ResourceVersion, c.Generation = uidOf("", c.Name), "1", 1
	c.CreationTimestamp = metav1.NewTime(s.Now)
	v1.InitializeConditions(c, s.Now)
	s.NodeClaims = append(s.NodeClaims, c)
	return c
}

func markLeaving(s *engine.Snapshot, node string) {
	now := metav1.NewTime(s.Now)
	for i, n := range s.Nodes {
		if n.Name == node {
			n = n.DeepCopy()
			n.DeletionTimestamp, n.Finalizers = &now, []string{v1.TerminationFinalizer}
			n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
			s.Nodes[i] = n
		}
	}
	for i, c := range s.NodeClaims {
		if c.Status.NodeName == node {
			c = c.DeepCopy()
			c.DeletionTimestamp, c.Finalizers = &now, []string{v1.TerminationFinalizer}
			s.NodeClaims[i] = c
		}
	}
}

// CarryOut is the cluster once everything that the plan wants is done: launched machines have become ready nodes of
// their cheapest offering, planned pods run where the plan puts them, disrupted nodes are gone and their pods wait for
// a node again.
func CarryOut(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot {
	out := clone(s)
	for _, d := range plan.Disruptions {
		for _, l := range d.Replacements {
			boot(&out, writeClaim(&out, l), bought(&out, l))
		}
		for _, node := range d.Nodes {
			removeNode(&out, node)
		}
	}
	for _, l := range plan.Launches {
		c := writeClaim(&out, l)
		boot(&out, c, bought(&out, l))
		for _, pod := range l.Pods {
			bind(&out, pod, c.Name)
		}
	}
	for _, p := range plan.Placements {
		if i := slices.IndexFunc(out.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == p.Node }); i >= 0 && !hasNode(&out, p.Node) {
			boot(&out, out.NodeClaims[i], offeringOf(&out, out.NodeClaims[i]))
		}
		bind(&out, p.Pod, p.Node)
	}
	return &out
}

// bought is the cheapest offering of the launch that there is a machine of.
func bought(s *engine.Snapshot, l engine.Launch) engine.OfferingID {
	class := poolNamed(s, l.NodePool).Spec.Template.Spec.NodeClassRef
	for _, o := range l.Offerings {
		if o.Reservation == "" || slots(findType(s, class, o.InstanceType), o.OfferingID) > 0 {
			return o.OfferingID
		}
	}
	return l.Offerings[0].OfferingID
}

func slots(t *engine.InstanceType, id engine.OfferingID) int {
	if i := slices.IndexFunc(t.Offerings, func(o engine.Offering) bool { return idOf(t, o) == id }); i >= 0 {
		return t.Offerings[i].Slots
	}
	return 0
}

func hasNode(s *engine.Snapshot, name string) bool {
	return slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == name })
}

// offeringOf is what a claim's labels say of its machine, or else the cheapest offering that its requirements name.
func offeringOf(s *engine.Snapshot, c *v1.NodeClaim) engine.OfferingID {
	if t := c.Labels[corev1.LabelInstanceTypeStable]; t != "" {
		return engine.OfferingID{
			InstanceType: t, Zone: c.Labels[corev1.LabelTopologyZone], CapacityType: c.Labels[v1.CapacityTypeLabelKey],
			Reservation: c.Labels[catalog.ReservationLabel],
		}
	}
	best, price := engine.OfferingID{}, -1.0
	for _, class := range s.Classes {
		if class.Ref != *c.Spec.NodeClassRef {
			continue
		}
		for _, t := range class.InstanceTypes {
			for _, o := range t.Offerings {
				if o.SoldOut || o.Reservation != "" && o.Slots <= 0 || !allowed(c, corev1.LabelInstanceTypeStable, t.Name) || !allowed(c, corev1.LabelTopologyZone, o.Zone) ||
					!allowed(c, v1.CapacityTypeLabelKey, o.CapacityType) || !allowed(c, catalog.ReservationLabel, o.Reservation) {
					continue
				}
				if price < 0 || o.Price < price {
					best, price = idOf(&t, o), o.Price
				}
			}
		}
	}
	return best
}

func idOf(t *engine.InstanceType, o engine.Offering) engine.OfferingID {
	return engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
}

// allowed reports whether the claim's In requirements leave the value over.
func allowed(c *v1.NodeClaim, key, value string) bool {
	for _, r := range c.Spec.Requirements {
		if r.Key == key && r.Operator == v1.In && !slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}

// boot makes a ready Node, named as the claim, of a claim's machine.
func boot(s *engine.Snapshot, claim *v1.NodeClaim, id engine.OfferingID) {
	t := findType(s, claim.Spec.NodeClassRef, id.InstanceType)
	pool := poolNamed(s, claim.Labels[v1.NodePoolLabelKey])
	i := slices.IndexFunc(t.Offerings, func(o engine.Offering) bool { return idOf(t, o) == id })
	labels := machineLabels(t, t.Offerings[i])
	maps.Copy(labels, poolLabels(pool))
	maps.Copy(labels, claim.Labels)
	m := machineLine{name: claim.Name}
	c := claim.DeepCopy()
	c.Labels = maps.Clone(labels)
	c.Status.ProviderID = "kwok://" + c.Name
	c.Status.Capacity, c.Status.Allocatable = t.Capacity.DeepCopy(), t.Allocatable()
	c.Status.LastPodEventTime = metav1.NewTime(s.Now)
	markRegistered(c, m, s.Now)
	s.NodeClaims[slices.Index(s.NodeClaims, claim)] = c
	b := &builder{snapshot: *s}
	s.Nodes = append(s.Nodes, b.nodeOf(machine{pool: pool, types: []*engine.InstanceType{t}, labels: labels}, m))
	b.addCSINode(m, t.AttachLimits)
	s.CSINodes = b.snapshot.CSINodes
	useSlots(s, *claim.Spec.NodeClassRef, id.Reservation, 1)
}

// useSlots takes machines out of a reservation, or gives them back if n is below zero.
func useSlots(s *engine.Snapshot, class v1.NodeClassReference, reservation string, n int) {
	if reservation == "" {
		return
	}
	for i := range s.Classes {
		if s.Classes[i].Ref != class {
			continue
		}
		for j := range s.Classes[i].InstanceTypes {
			t := &s.Classes[i].InstanceTypes[j]
			t.Offerings = slices.Clone(t.Offerings)
			for k := range t.Offerings {
				if o := &t.Offerings[k]; o.Reservation == reservation {
					o.Slots = max(o.Slots-n, 0)
				}
			}
		}
	}
}

// bind runs a pod on a node.
func bind(s *engine.Snapshot, id engine.PodID, node string) {
	for i, p := range s.Pods {
		if p.Namespace != id.Namespace || p.Name != id.Name {
			continue
		}
		p = p.DeepCopy()
		p.Spec.NodeName = node
		p.Status = corev1.PodStatus{}
		setPodStatus(p, &podLine{})
		s.Pods[i] = p
		if n := slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == node }); n >= 0 {
			mountDisks(s, p, s.Nodes[n])
		}
	}
}

// removeNode takes a node away. Pods of DaemonSets and mirror pods go with it, the others wait for another node.
func removeNode(s *engine.Snapshot, node string) {
	for _, c := range s.NodeClaims {
		if c.Status.NodeName == node {
			useSlots(s, *c.Spec.NodeClassRef, c.Labels[catalog.ReservationLabel], -1)
		}
	}
	s.Nodes, _ = without(s.Nodes, "", node)
	s.CSINodes, _ = without(s.CSINodes, "", node)
	s.VolumeAttachments = slices.DeleteFunc(s.VolumeAttachments, func(a *storagev1.VolumeAttachment) bool { return a.Spec.NodeName == node })
	s.NodeClaims = slices.DeleteFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return cmp.Or(c.Status.NodeName, c.Name) == node })
	s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node && !engine.IsReschedulable(p) })
	for i, p := range s.Pods {
		if p.Spec.NodeName != node {
			continue
		}
		p = p.DeepCopy()
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{}
		setPodStatus(p, &podLine{})
		s.Pods[i] = p
	}
}
