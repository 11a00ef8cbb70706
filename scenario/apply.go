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
	"tenon.sh/engine/kube"
	"tenon.sh/provider/catalog"
)

// WriteDown returns the cluster a moment after the plan began: each launch is a NodeClaim without a machine, each disrupted node is being
// removed, and no pod has moved yet.
func WriteDown(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot {
	out := clone(s)
	answerRequests(&out, plan)
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

// writeClaim adds the launch's claim. The claim has the launch's name, with a number if the name is in use.
func writeClaim(s *engine.Snapshot, l engine.Launch) *v1.NodeClaim {
	c := kube.NewClaim(poolNamed(s, l.NodePool), l)
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

// CarryOut returns the cluster once the plan is complete. Launched machines are ready nodes of their cheapest offering. Planned pods run on
// their planned nodes. Disrupted nodes are gone, and their pods are pending.
func CarryOut(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot { return carry(s, plan, false) }

// MoveOver is like CarryOut, but the pods of disrupted nodes run on their expected nodes. Their age is 0.
func MoveOver(s *engine.Snapshot, plan *engine.Plan) *engine.Snapshot { return carry(s, plan, true) }

func carry(s *engine.Snapshot, plan *engine.Plan, move bool) *engine.Snapshot {
	out := clone(s)
	answerRequests(&out, plan)
	var binds []engine.Placement
	gone := map[string]bool{}
	for _, d := range plan.Disruptions {
		names := map[string]string{} // names of the nodes for launches
		for _, l := range d.Replacements {
			c := writeClaim(&out, l)
			boot(&out, c, bought(&out, l))
			names[l.Name] = c.Name
		}
		for _, node := range d.Nodes {
			gone[node] = true
		}
		for _, m := range d.Moves {
			if move {
				binds = append(binds, engine.Placement{Pod: m.Pod, Node: cmp.Or(names[m.Node], m.Node)})
			}
		}
	}
	removeNodes(&out, gone)
	restart(&out, binds)
	for _, l := range plan.Launches {
		c := writeClaim(&out, l)
		boot(&out, c, bought(&out, l))
		for _, pod := range l.Pods {
			binds = append(binds, engine.Placement{Pod: pod, Node: c.Name})
		}
	}
	for _, p := range plan.Placements {
		if i := slices.IndexFunc(out.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == p.Node }); i >= 0 && !hasNode(&out, p.Node) {
			boot(&out, out.NodeClaims[i], offeringOf(&out, out.NodeClaims[i]))
		}
		binds = append(binds, p)
	}
	bind(&out, binds)
	return &out
}

// bought returns the launch's cheapest offering with a machine left.
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

// offeringOf returns the offering that a claim's labels name. If they name no instance type, it returns the cheapest offering that meets the
// claim's requirements.
func offeringOf(s *engine.Snapshot, c *v1.NodeClaim) engine.OfferingID {
	if t := c.Labels[corev1.LabelInstanceTypeStable]; t != "" {
		return engine.OfferingID{
			InstanceType: t, Zone: c.Labels[corev1.LabelTopologyZone], CapacityType: c.Labels[v1.CapacityTypeLabelKey],
			Reservation: c.Labels[catalog.ReservationLabel],
		}
	}
	best, price := engine.OfferingID{}, -1.0
	if class := kube.ClassFor(s, c.Spec.NodeClassRef, c.Labels[v1.NodePoolLabelKey]); class != nil {
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

// allowed reports whether the claim's In requirements allow the value.
func allowed(c *v1.NodeClaim, key, value string) bool {
	for _, r := range c.Spec.Requirements {
		if r.Key == key && r.Operator == v1.In && !slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}

// boot creates the ready Node of a claim's machine. The node has the claim's name.
func boot(s *engine.Snapshot, claim *v1.NodeClaim, id engine.OfferingID) {
	t := findTypeFor(s, claim.Spec.NodeClassRef, claim.Labels[v1.NodePoolLabelKey], id.InstanceType)
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
	markRegistered(c, m, s.Now, s.Now)
	s.NodeClaims[slices.Index(s.NodeClaims, claim)] = c
	b := &builder{snapshot: *s}
	s.Nodes = append(s.Nodes, b.nodeOf(machine{pool: pool, types: []*engine.InstanceType{t}, labels: labels}, m))
	b.addCSINode(m, t.AttachLimits)
	s.CSINodes = b.snapshot.CSINodes
	useSlots(s, *claim.Spec.NodeClassRef, id.Reservation, 1)
	useQuotas(s, t, id, 1)
}

// useSlots takes n machines out of a reservation, or returns them if n is negative.
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

// bind binds pods to nodes, one after the other.
func bind(s *engine.Snapshot, placements []engine.Placement) {
	pods, nodes := podIndex(s), map[string]*corev1.Node{}
	for _, n := range s.Nodes {
		nodes[n.Name] = n
	}
	for _, x := range placements {
		i, ok := pods[x.Pod.String()]
		if !ok {
			continue
		}
		p := s.Pods[i].DeepCopy()
		p.Spec.NodeName = x.Node
		p.Status = corev1.PodStatus{}
		setPodStatus(p, &podLine{})
		s.Pods[i] = p
		if n := nodes[x.Node]; n != nil {
			mountDisks(s, p, n)
		}
	}
}

// restart sets the pods' age to 0, as if their owners had just replaced them.
func restart(s *engine.Snapshot, placements []engine.Placement) {
	pods := podIndex(s)
	for _, x := range placements {
		if i, ok := pods[x.Pod.String()]; ok {
			p := s.Pods[i].DeepCopy()
			p.CreationTimestamp = metav1.NewTime(s.Now)
			s.Pods[i] = p
		}
	}
}

func podIndex(s *engine.Snapshot) map[string]int {
	out := make(map[string]int, len(s.Pods))
	for i, p := range s.Pods {
		out[p.Namespace+"/"+p.Name] = i
	}
	return out
}

// removeNodes removes nodes. Pods of DaemonSets and mirror pods are removed too; the other pods become pending.
func removeNodes(s *engine.Snapshot, gone map[string]bool) {
	if len(gone) == 0 {
		return
	}
	for _, c := range s.NodeClaims {
		if gone[c.Status.NodeName] {
			useSlots(s, *c.Spec.NodeClassRef, c.Labels[catalog.ReservationLabel], -1)
			id := offeringOf(s, c)
			useQuotas(s, findTypeFor(s, c.Spec.NodeClassRef, c.Labels[v1.NodePoolLabelKey], id.InstanceType), id, -1)
		}
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n *corev1.Node) bool { return gone[n.Name] })
	s.CSINodes = slices.DeleteFunc(s.CSINodes, func(n *storagev1.CSINode) bool { return gone[n.Name] })
	s.VolumeAttachments = slices.DeleteFunc(s.VolumeAttachments, func(a *storagev1.VolumeAttachment) bool { return gone[a.Spec.NodeName] })
	s.NodeClaims = slices.DeleteFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return gone[cmp.Or(c.Status.NodeName, c.Name)] })
	s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return gone[p.Spec.NodeName] && !kube.IsReschedulable(p) })
	for i, p := range s.Pods {
		if !gone[p.Spec.NodeName] {
			continue
		}
		p = p.DeepCopy()
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{}
		setPodStatus(p, &podLine{})
		s.Pods[i] = p
	}
}
