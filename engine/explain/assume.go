package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// AssumePools returns the snapshot of a cluster without NodePools with assumed NodePools: one for each group of nodes, with the labels and
// taints that the group's nodes share. Such a pool may buy the given types of the ordinary categories and of the categories of the group's own
// nodes. Each node gets the label of its pool; nodes of the control plane get none. Each MachineDeployment of Cluster API that sells types gets
// a pool too, with or without nodes; the pool buys only the MachineDeployment's own machines.
func AssumePools(s *engine.Snapshot, types []engine.InstanceType) *engine.Snapshot {
	out := *s
	out.Nodes, out.NodePools, out.NodeClaims = nil, nil, nil
	groups := map[string][]*corev1.Node{}
	for _, n := range kube.ByName(s.Nodes) {
		if isControlPlane(n) {
			out.Nodes = append(out.Nodes, n)
			continue
		}
		name := nodeGroup(n)
		groups[name] = append(groups[name], n)
	}
	x := assumption{zones: zonesOf(s), makers: makersOf(types)}
	for name := range x.makers {
		if groups[name] == nil {
			groups[name] = []*corev1.Node{}
		}
	}
	x.class = engine.Class{Ref: assumedClass(), InstanceTypes: types}
	out.Classes = []engine.Class{x.class}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out.NodePools = append(out.NodePools, x.pool(name, groups[name]))
		for _, n := range groups[name] {
			out.Nodes = append(out.Nodes, x.labelled(n, name))
		}
	}
	return &out
}

// assumption is the state of one AssumePools.
type assumption struct {
	zones []string // the zones of the nodes
	class engine.Class
	// makers holds, by MachineDeployment, the taints of its machines.
	makers map[string][]corev1.Taint
}

// makerLabel names the MachineDeployment of Cluster API that a machine comes from.
const makerLabel = "cluster.x-k8s.io/deployment-name"

func makersOf(types []engine.InstanceType) map[string][]corev1.Taint {
	out := map[string][]corev1.Taint{}
	for i := range types {
		for _, o := range types[i].Offerings {
			if name := o.Labels[makerLabel]; name != "" && len(out[name]) == 0 {
				out[name] = o.Taints
			}
		}
	}
	return out
}

func assumedClass() v1.NodeClassReference {
	return v1.NodeClassReference{Group: "tenon.sh", Kind: "Catalog", Name: "assumed"}
}

func nodeGroup(n *corev1.Node) string { return cmp.Or(kube.GroupOf(n), "default") }

func isControlPlane(n *corev1.Node) bool {
	for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := n.Labels[key]; ok {
			return true
		}
	}
	return false
}

// seen lists the values that the nodes have for a label. keys are the label's names, the current name first; a node's first value counts.
func seen(nodes []*corev1.Node, keys ...string) []string {
	var out []string
	for _, n := range nodes {
		for _, key := range keys {
			if value := n.Labels[key]; value != "" {
				out = append(out, value)
				break
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func zonesOf(s *engine.Snapshot) []string {
	return seen(s.Nodes, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)
}

// SoldHere moves the offerings to the zones of the nodes, because the sizes in a catalog of another region are still right.
func SoldHere(s *engine.Snapshot, types []engine.InstanceType) []engine.InstanceType {
	zones, regions := zonesOf(s), seen(s.Nodes, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion)
	out := make([]engine.InstanceType, 0, len(types))
	for _, t := range types {
		if len(regions) > 0 && t.Labels[corev1.LabelTopologyRegion] != nil {
			t.Labels = maps.Clone(t.Labels)
			t.Labels[corev1.LabelTopologyRegion] = regions
		}
		if len(zones) > 0 {
			t.Offerings = moved(t.Offerings, zones)
		}
		out = append(out, t)
	}
	return out
}

// moved returns the offerings for these zones. A zone with offerings keeps them with their prices; another zone gets copies of the offerings of
// a known zone.
func moved(offerings []engine.Offering, zones []string) []engine.Offering {
	var known []string
	for _, o := range offerings {
		known = append(known, o.Zone)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var out []engine.Offering
	for i, zone := range zones {
		like := zone
		if !slices.Contains(known, zone) && len(known) > 0 {
			like = known[i%len(known)]
		}
		for _, o := range offerings {
			if o.Zone == like {
				o.Zone = zone
				out = append(out, o)
			}
		}
	}
	return out
}

// labelled returns the node with the label of its pool, and with an assumed zone if the node has no zone label.
func (x *assumption) labelled(n *corev1.Node, pool string) *corev1.Node {
	out := *n
	out.Labels = maps.Clone(n.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[v1.NodePoolLabelKey] = pool
	if inventory.MachineOffering(n.Labels).Zone == "" {
		out.Labels[corev1.LabelTopologyZone] = x.anyZone()
	}
	return &out
}

func (x *assumption) anyZone() string {
	if len(x.zones) > 0 {
		return x.zones[0]
	}
	for _, t := range x.class.InstanceTypes {
		for _, o := range t.Offerings {
			return o.Zone
		}
	}
	return ""
}

func (x *assumption) pool(name string, nodes []*corev1.Node) *v1.NodePool {
	p := &v1.NodePool{}
	p.Name = name
	ref := assumedClass()
	p.Spec.Template.Spec.NodeClassRef = &ref
	p.Spec.Template.Labels = x.commonLabels(nodes)
	taints, makes := x.makers[name]
	for _, t := range commonTaints(nodes) {
		taints = slices.DeleteFunc(slices.Clone(taints), func(o corev1.Taint) bool { return o.MatchTaint(&t) })
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, v1.TaintFromCore(t))
	}
	for _, t := range taints {
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, v1.TaintFromCore(t))
	}
	require := func(key string, op v1.Operator, values []string) {
		if len(values) > 0 {
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, v1.Requirement{Key: key, Operator: op, Values: values})
		}
	}
	require(corev1.LabelArchStable, v1.In, seen(nodes, corev1.LabelArchStable, "beta.kubernetes.io/arch"))
	require(corev1.LabelOSStable, v1.In, seen(nodes, corev1.LabelOSStable, "beta.kubernetes.io/os"))
	var capacityTypes []string
	for _, n := range nodes {
		capacityTypes = append(capacityTypes, inventory.MachineOffering(n.Labels).CapacityType)
	}
	slices.Sort(capacityTypes)
	require(v1.CapacityTypeLabelKey, v1.In, slices.Compact(capacityTypes))
	for _, label := range kube.SortedKeys(ordinary) {
		require(label, v1.In, x.categories(label, nodes))
	}
	switch {
	case makes:
		require(makerLabel, v1.In, []string{name})
	case !x.sells(nodes):
		// The catalog has no prices for these machines, so the pool may buy nothing in their place.
		require(corev1.LabelInstanceTypeStable, v1.In, []string{"unknown"})
	}
	return p
}

// sells reports whether the catalog has the type of any of the nodes.
func (x *assumption) sells(nodes []*corev1.Node) bool {
	return slices.ContainsFunc(x.class.InstanceTypes, func(t engine.InstanceType) bool {
		return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return inventory.MachineOffering(n.Labels).InstanceType == t.Name })
	})
}

// ordinary holds, by label, the categories of general instance types: balanced ones, and those with more cores or more memory. A group gets
// another category only if one of its nodes has it already.
var ordinary = map[string][]string{
	"karpenter.k8s.aws/instance-category": {"c", "m", "r"},
	"karpenter.azure.com/sku-family":      {"D", "E", "F"},
}

// categories returns the ordinary categories and those of the group's nodes. It returns nil if no type of the catalog has the label.
func (x *assumption) categories(label string, nodes []*corev1.Node) []string {
	sorted := false
	out := slices.Clone(ordinary[label])
	for i := range x.class.InstanceTypes {
		t := &x.class.InstanceTypes[i]
		sorted = sorted || len(t.Labels[label]) > 0
		if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return inventory.MachineOffering(n.Labels).InstanceType == t.Name }) {
			out = append(out, t.Labels[label]...)
		}
	}
	if !sorted {
		return nil
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// commonLabels returns the labels that all nodes of a group share, without labels of the machine itself or of its location.
func (x *assumption) commonLabels(nodes []*corev1.Node) map[string]string {
	if len(nodes) == 0 {
		return nil
	}
	common := maps.Clone(nodes[0].Labels)
	for _, n := range nodes[1:] {
		maps.DeleteFunc(common, func(key, value string) bool { return n.Labels[key] != value })
	}
	settled := map[string]bool{}
	for i := range x.class.InstanceTypes {
		for key := range x.class.InstanceTypes[i].Labels {
			settled[key] = true
		}
		for _, o := range x.class.InstanceTypes[i].Offerings {
			for key := range o.Labels {
				settled[key] = true
			}
		}
	}
	maps.DeleteFunc(common, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return settled[v1.NormalizeLabel(key)] || slices.Contains(v1.WellKnownLabels(), v1.NormalizeLabel(key)) ||
			key == corev1.LabelHostname || key == corev1.LabelInstanceType || strings.HasPrefix(domain, "topology.") ||
			strings.Contains(domain, "beta.kubernetes.io") || domain == v1.Group
	})
	return common
}

// commonTaints returns the taints that all nodes of a group share, without temporary ones.
func commonTaints(nodes []*corev1.Node) []corev1.Taint {
	if len(nodes) == 0 {
		return nil
	}
	var out []corev1.Taint
	for _, t := range nodes[0].Spec.Taints {
		passing := kube.IsEphemeralTaint(t) || kube.IsElsewhereTaint(t) || t.Key == corev1.TaintNodeUnschedulable || t.Key == v1.DisruptedTaintKey || strings.HasPrefix(t.Key, "node.kubernetes.io/")
		everywhere := !slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
			return !slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
		})
		if everywhere && !passing {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b corev1.Taint) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect)) })
	return out
}
