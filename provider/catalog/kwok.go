package catalog

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// KWOK returns the 144 instance types of the built-in "kwok" catalog: 12 sizes in 3 shapes, for two operating systems and two architectures.
// Each type is sold in 4 zones at the same price.
func KWOK() []engine.InstanceType {
	types := []engine.InstanceType{}
	for _, cpu := range []int64{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256} {
		for _, shape := range []kwokShape{{"c", 2}, {"s", 4}, {"m", 8}} {
			for _, os := range []string{"linux", "windows"} {
				for _, arch := range []string{"amd64", "arm64"} {
					types = append(types, shape.instanceType(cpu, arch, os))
				}
			}
		}
	}
	Sort(types)
	return types
}

// kwokShape is a family of the "kwok" catalog. factor is its GiB of memory for each core.
type kwokShape struct {
	family string
	factor int64
}

func (s kwokShape) instanceType(cpu int64, arch, os string) engine.InstanceType {
	name := fmt.Sprintf("%s-%dx-%s-%s", s.family, cpu, arch, os)
	memory := cpu * s.factor << 30
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(min(cpu*16, 1024), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	onDemand := 0.025*float64(cpu) + 0.001*float64(memory)/1e9
	t := engine.InstanceType{
		Name:     name,
		Labels:   kwokLabels(name, arch, []string{os}, capacity),
		Capacity: capacity,
		Overhead: kwokOverhead(),
	}
	for _, zone := range []string{"test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"} {
		t.Offerings = append(t.Offerings,
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeSpot, Price: roundTo(0.7*onDemand, 1e13)},
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: roundTo(onDemand, 1e13)})
	}
	return t
}

// kwokOverhead returns the overhead of instance types that name none.
func kwokOverhead() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("10Mi"),
	}
}

// kwokLabels returns the labels of a type for which only the name and the resources are known.
func kwokLabels(name, arch string, systems []string, capacity corev1.ResourceList) map[string][]string {
	cpu, memory := capacity[corev1.ResourceCPU], capacity[corev1.ResourceMemory]
	return map[string][]string{
		corev1.LabelArchStable:              {arch},
		corev1.LabelOSStable:                systems,
		kwokv1alpha1.InstanceSizeLabelKey:   {kwokSize(name, cpu.String())},
		kwokv1alpha1.InstanceFamilyLabelKey: {kwokFamily(name)},
		kwokv1alpha1.InstanceCPULabelKey:    {cpu.String()},
		kwokv1alpha1.InstanceMemoryLabelKey: {memory.String()},
	}
}

var ec2Name = regexp.MustCompile(`^\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)$`)

// kwokSize returns the size at the end of a name that has EC2's form. For any other name, it returns the number of cores.
func kwokSize(name, cpu string) string {
	match := ec2Name.FindStringSubmatch(name)
	if match == nil {
		return cpu
	}
	return match[1]
}

// kwokFamily returns the part of a name before its first dot or dash; for a name without either, its first letter.
func kwokFamily(name string) string {
	if i := strings.IndexAny(name, ".-"); i >= 0 {
		return name[:i]
	}
	return name[:min(1, len(name))]
}

// roundTo rounds a price to a multiple of 1/parts, so that a price does not show the rounding errors of a floating-point product.
func roundTo(price, parts float64) float64 { return math.Round(price*parts) / parts }
