package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// The labels by which the pods of Diverse select each other.
const (
	diverseLabel  = "my-label"
	affinityLabel = "my-affininity" // spelt as in the original benchmark
)

// Diverse returns a cluster without nodes, with pending pods in five equal shares, each with another kind of hard constraint: none, spread
// over zones, spread over hosts, together in a zone, apart on hosts. The pods beyond the equal shares have no constraint.
func Diverse(pods int, seed uint64) *engine.Snapshot {
	s := newSnapshot(regularTypes(), nil)
	d := &dice{rand.New(rand.NewPCG(seed, 0xd1))}
	share := pods / 5
	add := func(kind string, count int, shape func() shape) {
		for range count {
			n := len(s.Pods)
			s.Pods = append(s.Pods, shape().pod(numbered(kind, n), fmt.Sprintf("diverse-%d-%05d", seed, n)))
		}
	}
	add("zone-spread", share, func() shape { return d.spread(corev1.LabelTopologyZone) })
	add("host-spread", share, func() shape { return d.spread(corev1.LabelHostname) })
	add("together", share, d.together)
	add("apart", share, d.apart)
	add("generic", pods-len(s.Pods), func() shape { return d.shape(diverseLabel, d.letter()) })
	return s
}

// Preference returns a cluster without nodes, with pending pods that have only preferences: to be in test-zone-1, without another of them in
// the zone, which is impossible, and without another of them on the host, which is possible.
func Preference(pods int, seed uint64) *engine.Snapshot {
	s := newSnapshot(regularTypes(), nil)
	d := &dice{rand.New(rand.NewPCG(seed, 0x9f))}
	wishes := preferences()
	for n := range pods {
		shape := d.shape("app", "nginx")
		shape.affinity = wishes
		s.Pods = append(s.Pods, shape.pod(numbered("preference", n), fmt.Sprintf("preference-%d-%05d", seed, n)))
	}
	return s
}

func preferences() *corev1.Affinity {
	apart := func(weight int32, topologyKey string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{
			Weight:          weight,
			PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: selecting("app", "nginx"), TopologyKey: topologyKey},
		}
	}
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-1"}}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}},
		}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			apart(10, corev1.LabelTopologyZone), apart(1, corev1.LabelHostname),
		}},
	}
}

// dice draws the pods of Diverse and Preference.
type dice struct{ *rand.Rand }

func (d *dice) letter() string { return string(rune('a' + d.IntN(7))) }

// shape returns a shape with one label and one of 30 sizes.
func (d *dice) shape(key, value string) shape {
	cpu := []int64{100, 250, 500, 1000, 1500}[d.IntN(5)]
	memory := []int64{100, 256, 512, 1024, 2048, 4096}[d.IntN(6)]
	return newShape(map[string]string{key: value}, cpu, memory, 0)
}

// spread returns a shape with a spread. The spread may count other pods than the pod itself, because the two letters are independent.
func (d *dice) spread(topologyKey string) shape {
	s := d.shape(diverseLabel, d.letter())
	s.spread = spreadOver(topologyKey, 1, selecting(diverseLabel, d.letter()))
	return s
}

func (d *dice) together() shape {
	letter := d.letter()
	s := d.shape(affinityLabel, letter)
	s.affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: selecting(affinityLabel, letter), TopologyKey: corev1.LabelTopologyZone,
		}},
	}}
	return s
}

func (d *dice) apart() shape {
	s := d.shape("app", "nginx")
	s.affinity = apartOn(corev1.LabelHostname, selecting("app", "nginx"))
	return s
}

// regularTypes returns 400 types. Each has one core more than the one before, and all have the same price per core and byte.
func regularTypes() []engine.InstanceType {
	var out []engine.InstanceType
	for i := range int64(400) {
		cpu, memory := i+1, 2*(i+1)<<30
		t := engine.InstanceType{
			Name: "regular-" + strconv.FormatInt(cpu, 10),
			Labels: map[string][]string{
				corev1.LabelArchStable: {v1.ArchitectureAMD64},
				corev1.LabelOSStable:   {"linux", "windows", "darwin"},
			},
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewQuantity(cpu, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
				corev1.ResourcePods:   *resource.NewQuantity(10*cpu, resource.DecimalSI),
			},
			Overhead: overhead(),
		}
		price := 0.1*float64(cpu) + float64(0.1*float64(memory)/1e9)
		for _, o := range []struct{ capacityType, zone string }{
			{v1.CapacityTypeSpot, "test-zone-1"}, {v1.CapacityTypeSpot, "test-zone-2"},
			{v1.CapacityTypeOnDemand, "test-zone-1"}, {v1.CapacityTypeOnDemand, "test-zone-2"}, {v1.CapacityTypeOnDemand, "test-zone-3"},
		} {
			t.Offerings = append(t.Offerings, engine.Offering{Zone: o.zone, CapacityType: o.capacityType, Price: price})
		}
		out = append(out, t)
	}
	return out
}
