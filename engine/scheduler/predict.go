package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// Predict returns the Node of the launch's machine once it is ready, and its CSINode, if the cloud chooses the offering. Both are nil if the
// launch does not list it. The Node's name consists of the launch's name and the zone, which is unique within a plan.
func Predict(s *engine.Snapshot, l *engine.Launch, id engine.OfferingID) (*corev1.Node, *storagev1.CSINode) {
	return newPredictor(s, nil).launch(l, id)
}

// predictor keeps the data that all machines of a cluster share.
type predictor struct {
	snapshot *engine.Snapshot
	types    kube.TypeIndex
	// drivers maps the storage drivers of the cluster's nodes to their topology keys; sources maps these keys to the labels with equal values.
	drivers  map[string][]string
	sources  map[string]string
	features []string
	limits   volume.AttachLimits
}

func newPredictor(s *engine.Snapshot, cache *inventory.Cache) *predictor {
	p := &predictor{snapshot: s, types: cache.TypesOf(s), drivers: volume.DriversSeen(s), features: featuresSeen(s)}
	p.limits = volume.LearnLimits(s, p.types)
	p.sources = volume.TopologySources(s, p.drivers)
	return p
}

func (p *predictor) launch(l *engine.Launch, id engine.OfferingID) (*corev1.Node, *storagev1.CSINode) {
	if !slices.ContainsFunc(l.Offerings, func(o engine.LaunchOffering) bool { return o.OfferingID == id }) {
		return nil, nil
	}
	pool := kube.FindPool(p.snapshot, l.NodePool)
	if pool == nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil, nil
	}
	kind := p.types.Find(pool.Spec.Template.Spec.NodeClassRef, pool.Name, id.InstanceType)
	if kind == nil {
		return nil, nil
	}
	labels := kube.PinnedLabels(l.Requirements)
	maps.Copy(labels, kube.PoolLabels(pool))
	maps.Copy(labels, l.Labels)
	maps.Copy(labels, machineLabels(kind, id, l.Requirements))
	m := prediction{
		name: l.Name + "-" + id.Zone, labels: labels, taints: v1.CoreTaints(pool.Spec.Template.Spec.Taints),
		capacity: kind.Capacity, allocatable: kind.Allocatable(), attach: p.limits.All(kind),
	}
	return p.objects(&m)
}

// claim returns the future Node and CSINode of a claim without a node. A claim that is not launched yet gets the smallest of its types in the
// first of its zones.
func (p *predictor) claim(claim *v1.NodeClaim) (*corev1.Node, *storagev1.CSINode) {
	m := prediction{
		name: cmp.Or(claim.Status.NodeName, claim.Name), labels: kube.PinnedLabels(claim.Spec.Requirements), taints: v1.CoreTaints(claim.Spec.Taints),
		provider: claim.Status.ProviderID, capacity: claim.Status.Capacity, allocatable: claim.Status.Allocatable,
	}
	maps.Copy(m.labels, claim.Labels)
	m.labels[v1.RegisteredLabelKey], m.labels[v1.InitializedLabelKey] = "true", "true"
	if kube.IsLaunched(claim) {
		if kind := p.types.Find(claim.Spec.NodeClassRef, claim.Labels[v1.NodePoolLabelKey], claim.Labels[corev1.LabelInstanceTypeStable]); kind != nil {
			m.attach = p.limits.All(kind)
		}
		return p.objects(&m)
	}
	kind, offering := smallest(p.snapshot, claim)
	if kind == nil {
		m.capacity, m.allocatable = claim.Spec.Resources.Requests, claim.Spec.Resources.Requests
		return p.objects(&m)
	}
	id := engine.OfferingID{InstanceType: kind.Name, Zone: offering.Zone, CapacityType: offering.CapacityType, Reservation: offering.Reservation}
	maps.Copy(m.labels, machineLabels(kind, id, claim.Spec.Requirements))
	m.capacity, m.allocatable, m.attach = kind.Capacity, kind.Allocatable(), p.limits.All(kind)
	return p.objects(&m)
}

// smallest returns the smallest type that the claim allows, and its offering in the first listed zone; both are nil if the catalog has none.
func smallest(s *engine.Snapshot, claim *v1.NodeClaim) (*engine.InstanceType, *engine.Offering) {
	class := kube.ClassFor(s, claim.Spec.NodeClassRef, claim.Labels[v1.NodePoolLabelKey])
	if class == nil {
		return nil, nil
	}
	zones := kube.Listed(claim.Spec.Requirements, corev1.LabelTopologyZone)
	rank := func(o *engine.Offering) int {
		if i := slices.Index(zones, o.Zone); i >= 0 {
			return i
		}
		return len(zones)
	}
	var kind *engine.InstanceType
	var offering *engine.Offering
	for _, t := range bySize(class.InstanceTypes) {
		if !kube.AllowsValue(claim.Spec.Requirements, corev1.LabelInstanceTypeStable, t.Name) {
			continue
		}
		for _, o := range kube.SortedOfferings(t) {
			if !kube.AllowsValue(claim.Spec.Requirements, corev1.LabelTopologyZone, o.Zone) ||
				!kube.AllowsValue(claim.Spec.Requirements, v1.CapacityTypeLabelKey, o.CapacityType) ||
				!kube.HasTaints(v1.CoreTaints(claim.Spec.Taints), o.Taints) {
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

// bySize orders types by CPU, memory and name.
func bySize(types []engine.InstanceType) []*engine.InstanceType {
	out := make([]*engine.InstanceType, 0, len(types))
	for i := range types {
		out = append(out, &types[i])
	}
	size := func(t *engine.InstanceType, name corev1.ResourceName) int64 {
		return kube.Amount(name, t.Capacity[name])
	}
	slices.SortFunc(out, func(a, b *engine.InstanceType) int {
		return cmp.Or(
			cmp.Compare(size(a, corev1.ResourceCPU), size(b, corev1.ResourceCPU)),
			cmp.Compare(size(a, corev1.ResourceMemory), size(b, corev1.ResourceMemory)),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}

// machineLabels returns the labels that follow from the offering. If a type has several values for a label, it uses the first one that the
// requirements allow.
func machineLabels(kind *engine.InstanceType, id engine.OfferingID, requirements []v1.Requirement) map[string]string {
	labels := map[string]string{}
	for key, values := range kind.Labels {
		i := slices.IndexFunc(values, func(v string) bool { return kube.AllowsValue(requirements, key, v) })
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

// prediction is a machine without a Node.
type prediction struct {
	name, provider        string
	labels                map[string]string
	taints                []corev1.Taint
	capacity, allocatable corev1.ResourceList
	attach                map[string]int
}

// olderNames returns the old labels that kubelets and cloud controllers still set beside the current ones.
func olderNames() []string {
	return []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/os", corev1.LabelInstanceType,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	}
}

// objects returns the objects that the kubelet and the storage drivers will create.
func (p *predictor) objects(m *prediction) (*corev1.Node, *storagev1.CSINode) {
	m.labels[corev1.LabelHostname] = m.name
	for _, old := range olderNames() {
		if value, ok := m.labels[v1.NormalizeLabel(old)]; ok {
			m.labels[old] = value
		}
	}
	for key, source := range p.sources {
		if value, ok := m.labels[source]; ok && m.labels[key] == "" {
			m.labels[key] = v1.ValueAs(key, value)
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

// csiNode returns the CSINode with the drivers of the cluster's nodes and the drivers whose limits are known.
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
	for _, name := range kube.SortedKeys(all) {
		d := storagev1.CSINodeDriver{Name: name, NodeID: m.name, TopologyKeys: all[name]}
		if limit, ok := m.attach[name]; ok {
			count := int32(limit)
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		out.Spec.Drivers = append(out.Spec.Drivers, d)
	}
	return out
}

// featuresSeen returns the features that any node declares and those that pods can require, because new machines run the same or a newer
// kubelet.
func featuresSeen(s *engine.Snapshot) []string {
	all := kube.DeclaredFeatures()
	for _, n := range s.Nodes {
		all = append(all, n.Status.DeclaredFeatures...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
