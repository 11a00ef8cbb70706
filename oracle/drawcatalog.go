package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Labels of users, and resources and drivers without a real vendor.
const (
	familyLabel     = "example.com/family"
	generationLabel = "example.com/generation" // a number
	tierLabel       = "example.com/tier"       // set by pools
	rackLabel       = "example.com/rack"       // a topology that no instance type has as a label
	gpu             = corev1.ResourceName("example.com/gpu")
	accelerator     = corev1.ResourceName("example.com/accelerator") // of a DeviceClass, in some clusters
	diskDriver      = "disk.example.com"                             // with attach limits
	fileDriver      = "file.example.com"                             // without
)

func classReference() v1.NodeClassReference {
	return v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
}

// catalog makes 10 to 20 types in realistic shapes: 2, 4 or 8 GiB per core, and prices that are nearly proportional to the size.
func (d *drawing) catalog() {
	class := engine.Class{Ref: classReference()}
	for i := range 10 + d.IntN(11) {
		class.InstanceTypes = append(class.InstanceTypes, d.instanceType(fmt.Sprintf("t%d", i)))
	}
	d.s.Classes = []engine.Class{class}
}

func (d *drawing) instanceType(name string) engine.InstanceType {
	cpu, factor := pick(d, 1, 2, 2, 4, 4, 8, 16), pick(d, 2, 4, 4, 8)
	t := engine.InstanceType{
		Name: name,
		Labels: map[string][]string{
			corev1.LabelArchStable: {pick(d, v1.ArchitectureAMD64, v1.ArchitectureAMD64, v1.ArchitectureAMD64, v1.ArchitectureARM64)},
			corev1.LabelOSStable:   {string(corev1.Linux)},
			familyLabel:            {pick(d, "c", "m", "r")},
			generationLabel:        {pick(d, "3", "5", "7", "10")},
		},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: count(cpu), corev1.ResourceMemory: mebi(cpu * factor * 1024), corev1.ResourcePods: count(pick(d, 4, 10, 30, 110)),
			corev1.ResourceEphemeralStorage: mebi(20 * 1024),
		},
		Overhead: corev1.ResourceList{corev1.ResourceCPU: milli(80), corev1.ResourceMemory: mebi(300)},
	}
	price := float64(cpu) * (0.02 + 0.005*float64(factor)) * (0.8 + 0.4*d.Float64())
	if d.chance(6) {
		t.Capacity[gpu], price = count(pick(d, 1, 2, 4)), price*4
	}
	if !d.chance(4) {
		t.AttachLimits = map[string]int{diskDriver: pick(d, 1, 2, 3, 8)}
	}
	t.Offerings = d.offerings(price)
	if d.chance(6) {
		t.Offerings = append(t.Offerings, engine.Offering{
			Zone: pick(d, d.zones...), CapacityType: v1.CapacityTypeReserved, Price: price / 1000, Reservation: "cr-" + name, Slots: d.IntN(3),
			Labels: map[string]string{"karpenter.k8s.aws/capacity-reservation-id": "cr-" + name},
		})
	}
	return t
}

func (d *drawing) offerings(price float64) []engine.Offering {
	var out []engine.Offering
	for i, zone := range d.zones {
		if i > 0 && d.chance(4) {
			continue
		}
		out = append(out, engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: price, SoldOut: d.chance(12)})
		if !d.chance(3) {
			out = append(out, engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeSpot, Price: price * (0.3 + 0.3*d.Float64()), SoldOut: d.chance(8)})
		}
	}
	return out
}

// pools makes NodePools. The first accepts all pods. The others have weights, limits, taints, labels and requirements.
func (d *drawing) pools() {
	for i := range 2 + d.IntN(3) {
		ref := classReference()
		p := &v1.NodePool{ObjectMeta: d.meta("", fmt.Sprintf("pool%d", i))}
		template := &p.Spec.Template
		template.Spec.NodeClassRef = &ref
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
		if i > 0 {
			d.dressPool(p, i)
		}
		template.Labels = pick(d, nil, map[string]string{tierLabel: "gold"}, map[string]string{tierLabel: "silver"})
		if d.chance(2) {
			template.Spec.StartupTaints = []v1.Taint{{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}}
		}
		for _, condition := range []string{v1.ConditionValidationSucceeded, v1.ConditionNodeClassReady} {
			v1.SetCondition(p, condition, metav1.ConditionTrue, "", "", d.s.Now)
		}
		d.s.NodePools = append(d.s.NodePools, p)
	}
	if !d.chance(4) {
		return
	}
	// In some clusters no machine can be bought, because only there a wrong refusal of an existing node has an effect.
	for _, p := range d.s.NodePools {
		p.Spec.Limits = v1.Limits{v1.ResourceNodes: count(0)}
	}
}

func (d *drawing) dressPool(p *v1.NodePool, i int) {
	spec := &p.Spec.Template.Spec
	if d.chance(2) {
		weight := int32(10 * (1 + d.IntN(3)))
		p.Spec.Weight = &weight
	}
	switch d.IntN(5) {
	case 0, 1:
		spec.Taints = []v1.Taint{{Key: "example.com/team", Value: fmt.Sprintf("t%d", i), Effect: pick(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}}
	case 2:
		spec.Taints = []v1.Taint{{Key: "example.com/dear", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	in := func(key string, values ...string) { // adds a requirement with operator In
		spec.Requirements = append(spec.Requirements, v1.Requirement{Key: key, Operator: v1.In, Values: values})
	}
	switch d.IntN(7) {
	case 0:
		in(corev1.LabelTopologyZone, d.zones[:2]...)
	case 1:
		spec.Requirements = append(spec.Requirements, v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.NotIn, Values: d.zones[:1]})
	case 2:
		in(v1.CapacityTypeLabelKey, v1.CapacityTypeSpot)
	case 3:
		in(corev1.LabelArchStable, v1.ArchitectureAMD64)
	case 4:
		least := 2
		spec.Requirements = append(spec.Requirements, v1.Requirement{Key: familyLabel, Operator: v1.Exists, MinValues: &least})
	case 5:
		spec.Requirements = append(spec.Requirements, v1.Requirement{Key: generationLabel, Operator: v1.Gt, Values: []string{"3"}})
	}
	switch d.IntN(5) {
	case 0:
		p.Spec.Limits = v1.Limits{corev1.ResourceCPU: count(pick(d, 8, 24))}
	case 1:
		p.Spec.Limits = v1.Limits{v1.ResourceNodes: count(pick(d, 1, 3)), corev1.ResourceMemory: mebi(96 * 1024)}
	}
}

// machineLabels returns the labels of a machine of this offering in this pool.
func machineLabels(p *v1.NodePool, t *engine.InstanceType, o engine.Offering) map[string]string {
	ref := p.Spec.Template.Spec.NodeClassRef
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType,
		v1.NodePoolLabelKey: p.Name, ref.LabelKey(): ref.Name,
	}
	for key, values := range t.Labels {
		labels[key] = values[0]
	}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, p.Spec.Template.Labels)
	return labels
}

// machine returns a random pool, and a random offering that its requirements admit.
func (d *drawing) machine() (*v1.NodePool, *engine.InstanceType, engine.Offering) {
	for {
		p := pick(d, d.s.NodePools...)
		class := &d.s.Classes[0]
		t := &class.InstanceTypes[d.IntN(len(class.InstanceTypes))]
		o := pick(d, t.Offerings...)
		labels := machineLabels(p, t, o)
		if !slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(r v1.Requirement) bool {
			return r.Operator == v1.In && !slices.Contains(r.Values, labels[r.Key]) ||
				r.Operator == v1.NotIn && slices.Contains(r.Values, labels[r.Key]) ||
				r.Operator == v1.Gt && labels[r.Key] == r.Values[0]
		}) {
			return p, t, o
		}
	}
}
