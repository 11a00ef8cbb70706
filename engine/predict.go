package engine

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// Predict returns the Node that the launch's machine will be once it is ready, and the CSINode beside it, if the cloud
// meets the launch with that offering; both are nil if the launch does not list it. The Node is named after the launch
// and the zone, which is unique within a plan.
func Predict(s *Snapshot, l *Launch, id OfferingID) (*corev1.Node, *storagev1.CSINode) {
	return newPredictor(s, nil).launch(l, id)
}

// PredictClaim returns the Node that a claim without one will become, and the CSINode beside it. Of a claim that is not
// launched yet it is known only what it may become: the smallest of its types in the first of its zones is taken.
func PredictClaim(s *Snapshot, claim *v1.NodeClaim) (*corev1.Node, *storagev1.CSINode) {
	return newPredictor(s, nil).claim(claim)
}

// predictor keeps what all machines of a cluster have in common.
type predictor struct {
	snapshot *Snapshot
	types    typeIndex
	// drivers maps the storage drivers of the cluster's nodes to their topology keys, sources those keys to the label
	// that they repeat.
	drivers  map[string][]string
	sources  map[string]string
	features []string
	limits   attachLimits
}

func newPredictor(s *Snapshot, memo *Memo) *predictor {
	p := &predictor{snapshot: s, types: memo.typesOf(s), drivers: driversSeen(s), features: featuresSeen(s)}
	p.limits = learnLimits(s, p.types)
	p.sources = topologySources(s, p.drivers)
	return p
}

func (p *predictor) launch(l *Launch, id OfferingID) (*corev1.Node, *storagev1.CSINode) {
	if !slices.ContainsFunc(l.Offerings, func(o LaunchOffering) bool { return o.OfferingID == id }) {
		return nil, nil
	}
	pool := findPool(p.snapshot, l.NodePool)
	if pool == nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil, nil
	}
	kind := p.types.find(pool.Spec.Template.Spec.NodeClassRef, id.InstanceType)
	if kind == nil {
		return nil, nil
	}
	labels := pinnedLabels(l.Requirements)
	maps.Copy(labels, poolLabels(pool))
	maps.Copy(labels, l.Labels)
	maps.Copy(labels, machineLabels(kind, id, l.Requirements))
	m := prediction{
		name: l.Name + "-" + id.Zone, labels: labels, taints: v1.CoreTaints(pool.Spec.Template.Spec.Taints),
		capacity: kind.Capacity, allocatable: kind.Allocatable(), attach: p.limits.all(kind),
	}
	return p.objects(&m)
}

func (p *predictor) claim(claim *v1.NodeClaim) (*corev1.Node, *storagev1.CSINode) {
	m := prediction{
		name: cmp.Or(claim.Status.NodeName, claim.Name), labels: pinnedLabels(claim.Spec.Requirements), taints: v1.CoreTaints(claim.Spec.Taints),
		provider: claim.Status.ProviderID, capacity: claim.Status.Capacity, allocatable: claim.Status.Allocatable,
	}
	maps.Copy(m.labels, claim.Labels)
	m.labels[v1.RegisteredLabelKey], m.labels[v1.InitializedLabelKey] = "true", "true"
	if isLaunched(claim) {
		if kind := p.types.find(claim.Spec.NodeClassRef, claim.Labels[corev1.LabelInstanceTypeStable]); kind != nil {
			m.attach = p.limits.all(kind)
		}
		return p.objects(&m)
	}
	kind, offering := smallest(p.snapshot, claim)
	if kind == nil {
		m.capacity, m.allocatable = claim.Spec.Resources.Requests, claim.Spec.Resources.Requests
		return p.objects(&m)
	}
	id := OfferingID{kind.Name, offering.Zone, offering.CapacityType, offering.Reservation}
	maps.Copy(m.labels, machineLabels(kind, id, claim.Spec.Requirements))
	m.capacity, m.allocatable, m.attach = kind.Capacity, kind.Allocatable(), p.limits.all(kind)
	return p.objects(&m)
}

// smallest returns the smallest type that the claim's requirements allow, and its offering in the first zone that they
// name; both are nil if the catalog has none.
func smallest(s *Snapshot, claim *v1.NodeClaim) (*InstanceType, *Offering) {
	class := findClass(s, claim.Spec.NodeClassRef)
	if class == nil {
		return nil, nil
	}
	zones := listed(claim.Spec.Requirements, corev1.LabelTopologyZone)
	rank := func(o *Offering) int {
		if i := slices.Index(zones, o.Zone); i >= 0 {
			return i
		}
		return len(zones)
	}
	var kind *InstanceType
	var offering *Offering
	for _, t := range bySize(class.InstanceTypes) {
		if !allowsValue(claim.Spec.Requirements, corev1.LabelInstanceTypeStable, t.Name) {
			continue
		}
		for _, o := range sortedOfferings(t) {
			if !allowsValue(claim.Spec.Requirements, corev1.LabelTopologyZone, o.Zone) ||
				!allowsValue(claim.Spec.Requirements, v1.CapacityTypeLabelKey, o.CapacityType) {
				continue
			}
			if offering == nil || rank(o) < rank(offering) {
				kind, offering = t, o
			}
		}
		if kind != nil {
			return kind, offering
		}
	}
	return nil, nil
}

// bySize orders types by what pods can use of them.
func bySize(types []InstanceType) []*InstanceType {
	out := make([]*InstanceType, 0, len(types))
	for i := range types {
		out = append(out, &types[i])
	}
	size := func(t *InstanceType, name corev1.ResourceName) int64 { return amount(name, t.Capacity[name]) }
	slices.SortFunc(out, func(a, b *InstanceType) int {
		return cmp.Or(
			cmp.Compare(size(a, corev1.ResourceCPU), size(b, corev1.ResourceCPU)),
			cmp.Compare(size(a, corev1.ResourceMemory), size(b, corev1.ResourceMemory)),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}

// pinnedLabels are the labels that the requirements leave no choice about.
func pinnedLabels(requirements []v1.Requirement) map[string]string {
	labels := map[string]string{}
	for _, r := range requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[v1.NormalizeLabel(r.Key)] = r.Values[0]
		}
	}
	return labels
}

// listed are the values that the requirements name for a key, in their order.
func listed(requirements []v1.Requirement, key string) []string {
	for _, r := range requirements {
		if r.Operator == v1.In && v1.NormalizeLabel(r.Key) == key {
			return r.Values
		}
	}
	return nil
}

func allowsValue(requirements []v1.Requirement, key, value string) bool {
	return !slices.ContainsFunc(requirements, func(r v1.Requirement) bool {
		e := poolExpression(r)
		return e.Key == key && !e.Admits(value, true)
	})
}

// machineLabels are the labels that the choice of an offering settles. Where a type can carry one of several values, it
// is the first that the requirements allow.
func machineLabels(kind *InstanceType, id OfferingID, requirements []v1.Requirement) map[string]string {
	labels := map[string]string{}
	for key, values := range kind.Labels {
		i := slices.IndexFunc(values, func(v string) bool { return allowsValue(requirements, key, v) })
		switch {
		case i >= 0:
			labels[key] = values[i]
		case len(values) > 0:
			labels[key] = values[0]
		}
	}
	for i := range kind.Offerings {
		o := &kind.Offerings[i]
		if o.Zone == id.Zone && o.CapacityType == id.CapacityType && o.Reservation == id.Reservation {
			maps.Copy(labels, o.Labels)
		}
	}
	labels[corev1.LabelInstanceTypeStable] = kind.Name
	labels[corev1.LabelTopologyZone] = id.Zone
	labels[v1.CapacityTypeLabelKey] = id.CapacityType
	return labels
}

func findPool(s *Snapshot, name string) *v1.NodePool {
	for _, p := range s.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// prediction is a machine that has no Node yet.
type prediction struct {
	name, provider        string
	labels                map[string]string
	taints                []corev1.Taint
	capacity, allocatable corev1.ResourceList
	attach                map[string]int
}

// olderNames are labels that kubelets and cloud controllers still set beside the newer ones.
func olderNames() []string {
	return []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/os", corev1.LabelInstanceType,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	}
}

// objects writes the prediction down as the kubelet and the storage drivers will.
func (p *predictor) objects(m *prediction) (*corev1.Node, *storagev1.CSINode) {
	m.labels[corev1.LabelHostname] = m.name
	for _, old := range olderNames() {
		if value, ok := m.labels[v1.NormalizeLabel(old)]; ok {
			m.labels[old] = value
		}
	}
	for key, source := range p.sources {
		if value, ok := m.labels[source]; ok && m.labels[key] == "" {
			m.labels[key] = value
		}
	}
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: m.labels},
		Spec:       corev1.NodeSpec{ProviderID: m.provider, Taints: m.taints},
		Status: corev1.NodeStatus{
			Capacity: m.capacity.DeepCopy(), Allocatable: m.allocatable.DeepCopy(),
			Conditions:       []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
			Addresses:        []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: m.name}},
			NodeInfo:         corev1.NodeSystemInfo{Architecture: m.labels[corev1.LabelArchStable], OperatingSystem: m.labels[corev1.LabelOSStable]},
			DeclaredFeatures: p.features,
		},
	}
	return node, p.csiNode(m)
}

// csiNode lists the drivers that run elsewhere in the cluster, and those whose limits the catalog knows.
func (p *predictor) csiNode(m *prediction) *storagev1.CSINode {
	out := &storagev1.CSINode{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"},
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
	}
	all := maps.Clone(p.drivers)
	for name := range m.attach {
		if _, ok := all[name]; !ok {
			all[name] = nil
		}
	}
	for _, name := range sortedKeys(all) {
		d := storagev1.CSINodeDriver{Name: name, NodeID: m.name, TopologyKeys: all[name]}
		if limit, ok := m.attach[name]; ok {
			count := int32(limit)
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		out.Spec.Drivers = append(out.Spec.Drivers, d)
	}
	return out
}

// featuresSeen are those that any node of the cluster declares, and those that pods can ask for: new machines run the same
// or a newer kubelet.
func featuresSeen(s *Snapshot) []string {
	all := declaredFeatures()
	for _, n := range s.Nodes {
		all = append(all, n.Status.DeclaredFeatures...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// driversSeen maps the storage drivers of the cluster's nodes to their topology keys.
func driversSeen(s *Snapshot) map[string][]string {
	out := map[string][]string{}
	for _, n := range s.CSINodes {
		for _, d := range n.Spec.Drivers {
			keys := append(out[d.Name], d.TopologyKeys...)
			slices.Sort(keys)
			out[d.Name] = slices.Compact(keys)
		}
	}
	return out
}

// topologySources says, for each label by which storage knows places, which other label of a node it repeats: the one
// that it equals on every node that carries it, or the zone where its name says so. Labels of which neither is known are
// left out.
func topologySources(s *Snapshot, drivers map[string][]string) map[string]string {
	out := map[string]string{}
	for _, keys := range drivers {
		for _, key := range keys {
			if source := repeats(s, key); source != "" {
				out[key] = source
			}
		}
	}
	for _, pv := range s.PersistentVolumes {
		for _, term := range volumeTerms(pv) {
			for _, e := range term.MatchExpressions {
				if v1.NormalizeLabel(e.Key) != e.Key {
					out[e.Key] = v1.NormalizeLabel(e.Key)
				}
			}
		}
	}
	for _, class := range s.StorageClasses {
		for _, term := range class.AllowedTopologies {
			for _, e := range term.MatchLabelExpressions {
				if v1.NormalizeLabel(e.Key) != e.Key {
					out[e.Key] = v1.NormalizeLabel(e.Key)
				}
			}
		}
	}
	return out
}

func repeats(s *Snapshot, key string) string {
	if current := v1.NormalizeLabel(key); current != key {
		return current
	}
	for _, source := range []string{corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelTopologyRegion} {
		seen, same := false, true
		for _, n := range s.Nodes {
			if value, ok := n.Labels[key]; ok {
				seen, same = true, same && value == n.Labels[source]
			}
		}
		if seen && same && key != source {
			return source
		}
	}
	return ""
}

func volumeTerms(pv *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms
}
