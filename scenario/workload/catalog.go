package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

const gpuResource corev1.ResourceName = "nvidia.com/gpu"

// model contains the fields of an EC2 type that the benchmark's catalog uses.
type model struct {
	name, arch           string
	cores, memory, slots int64 // memory in MiB, slots for pods
	gpus                 resource.Quantity
	price                float64
}

// Catalog returns the machines for the cost workloads: every type of EC2 that is not bare metal, at the on-demand prices of us-east-1. It is
// deliberately simpler than the built-in "aws" catalog, because published results were made with it: 92.5 % of the nominal memory, 100m and
// 10Mi of overhead, each family missing from about one zone in seven, spot at 30 to 65 % of the on-demand price, fixed by family and zone.
func Catalog() []engine.InstanceType {
	var out []engine.InstanceType
	for _, m := range models() {
		if t := m.instanceType(); len(t.Offerings) > 0 {
			out = append(out, t)
		}
	}
	catalog.Sort(out)
	return out
}

// models returns the types of the built-in catalog and the five types on which its image does not run.
func models() []model {
	out := []model{
		{name: "a1.medium", arch: "arm64", cores: 1, memory: 2 << 10, slots: 8, price: 0.0255},
		{name: "a1.large", arch: "arm64", cores: 2, memory: 4 << 10, slots: 29, price: 0.051},
		{name: "a1.xlarge", arch: "arm64", cores: 4, memory: 8 << 10, slots: 58, price: 0.102},
		{name: "a1.2xlarge", arch: "arm64", cores: 8, memory: 16 << 10, slots: 58, price: 0.204},
		{name: "a1.4xlarge", arch: "arm64", cores: 16, memory: 32 << 10, slots: 234, price: 0.408},
	}
	for _, t := range catalog.AWS() {
		if hypervisor(&t) == "" {
			continue // bare metal
		}
		slots := t.Capacity[corev1.ResourcePods]
		m := model{name: t.Name, arch: first(&t, corev1.LabelArchStable), cores: number(&t, "instance-cpu"), memory: number(&t, "instance-memory"),
			slots: slots.Value(), gpus: t.Capacity[gpuResource]}
		if family := first(&t, "karpenter.k8s.aws/instance-family"); family == "g6f" || family == "gr6f" {
			m.gpus = resource.Quantity{} // the published results do not count parts of GPUs
		}
		for _, o := range t.Offerings {
			if o.CapacityType == v1.CapacityTypeOnDemand {
				m.price = o.Price
			}
		}
		out = append(out, m)
	}
	return out
}

func hypervisor(t *engine.InstanceType) string {
	return first(t, "karpenter.k8s.aws/instance-hypervisor")
}

func number(t *engine.InstanceType, label string) int64 {
	n, err := strconv.ParseInt(first(t, "karpenter.k8s.aws/"+label), 10, 64)
	if err != nil {
		panic("built-in catalog: " + t.Name + ": " + err.Error())
	}
	return n
}

// first returns the default value of a label for machines of the type. It returns "" if there is none.
func first(t *engine.InstanceType, label string) string {
	if values := t.Labels[label]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (m model) instanceType() engine.InstanceType {
	slots := min(m.slots, 737)
	if slots == 0 {
		slots = 110
	}
	memory := int64(float64(m.memory) * 0.925)
	t := engine.InstanceType{
		Name: m.name,
		Labels: map[string][]string{
			corev1.LabelArchStable:              {m.arch},
			corev1.LabelOSStable:                {"linux"},
			kwokv1alpha1.InstanceFamilyLabelKey: {m.family()},
			kwokv1alpha1.InstanceCPULabelKey:    {strconv.FormatInt(m.cores, 10)},
		},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(m.cores, resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(memory<<20, resource.BinarySI),
			corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
			corev1.ResourcePods:             *resource.NewQuantity(slots, resource.DecimalSI),
		},
		Overhead: overhead(),
	}
	if !m.gpus.IsZero() {
		t.Capacity[gpuResource] = m.gpus
	}
	for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		if hashed(m.family()+zone) < 0.15 {
			continue
		}
		spot := m.price * (0.3 + float64(0.35*hashed(m.family()+zone+"spot")))
		t.Offerings = append(t.Offerings,
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: rounded(m.price)},
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeSpot, Price: rounded(spot)})
	}
	return t
}

// family returns the family, such as c7i-flex of c7i-flex.large.
func (m model) family() string {
	family, _, _ := strings.Cut(m.name, ".")
	return family
}

// overhead returns the resources that the kubelet and the system reserve on every machine.
func overhead() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("10Mi")}
}

// hashed returns a number in [0, 1] that depends only on the text.
func hashed(text string) float64 {
	sum := sha256.Sum256([]byte(text))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1<<32 - 1)
}

// rounded returns the price with six decimals, exact to the last bit.
func rounded(price float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(price, 'f', 6, 64), 64)
	if err != nil {
		panic(err) // the text was written by FormatFloat
	}
	return out
}

// families lists the families whose names begin with one of the letters and a digit.
func families(kinds []engine.InstanceType, letters string) []string {
	var out []string
	for i := range kinds {
		f := first(&kinds[i], kwokv1alpha1.InstanceFamilyLabelKey)
		if len(f) > 1 && strings.Contains(letters, f[:1]) && f[1] >= '0' && f[1] <= '9' {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
